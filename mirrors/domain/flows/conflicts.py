"""Conflicts between flows: cycles through unchanged names, and one topic written by two flows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.flows.named_offsets import check_named
from mirrors.domain.flows.written_names import (
    FlowNames,
    check_growing_names,
    check_renamed_loop,
    check_renames,
)
from mirrors.domain.patterns.name_sets import (
    Undecided,
    after_text,
    both,
    either,
    example,
    invert,
    text,
)
from mirrors.domain.patterns.parser import of_patterns, without_topics
from mirrors.domain.patterns.renames import RENAME
from mirrors.domain.replication_policy import HEARTBEATS, policy_for
from mirrors.domain.schemas.registry import registry_of
from mirrors.domain.settings.flow_control import SKIP
from mirrors.domain.settings.sync import SCHEMAS
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.domain.transforms.functions import schema_functions
from mirrors.domain.transforms.rules import DEAD_LETTER_TOPIC, TRANSFORMS


def check_expressions(spec: FlowSpec) -> None:
    """Check the expressions of the flow's rules. Raises InvalidSettings, a sentence for each."""
    if not spec.settings.transforms:
        return
    # Few flows have rules, and the parser takes 15 MB and a part of a program's start.
    from mirrors.domain.transforms.sql import rule_problems  # noqa: PLC0415

    if problems := rule_problems(spec.settings.transforms):
        raise InvalidSettings({TRANSFORMS: [f"{TRANSFORMS}, {one}." for one in problems]})
    for number, rule in enumerate(spec.settings.transforms, 1):
        for field, expression in rule.expressions.items():
            for helper in schema_functions(expression):
                for side in (spec.source, spec.target) if helper.maps_ids else (spec.source,):
                    if registry_of(side.alias, side.properties) is None:
                        problem = (
                            f"{TRANSFORMS}, rule {number}, {field}: uses {helper.name}, but "
                            f"cluster {side.alias} has no schema registry. Enter one in the "
                            "settings of the cluster."
                        )
                        raise InvalidSettings({TRANSFORMS: [problem]})


def check_schemas(spec: FlowSpec) -> None:
    """Check that schemas have two registries. Raises InvalidSettings."""
    if not spec.settings.sync_schemas_enabled:
        return
    addresses = []
    for side in (spec.source, spec.target):
        registry = registry_of(side.alias, side.properties)
        if registry is None:
            problem = (
                f"{SCHEMAS} is true, but cluster {side.alias} has no schema registry. Enter one "
                "in the settings of the cluster."
            )
            raise InvalidSettings({SCHEMAS: [problem]})
        addresses.append(set(registry.urls))
    if addresses[0] & addresses[1]:
        problem = (
            f"{spec.source.alias} and {spec.target.alias} have the same schema registry, so there "
            f"is nothing to synchronize. Remove {SCHEMAS}."
        )
        raise InvalidSettings({SCHEMAS: [problem]})


def check_routes(spec: FlowSpec) -> None:
    """Check the routes of the flow's rules by themselves. Raises InvalidSettings."""
    settings = spec.settings
    owners: dict[str, int] = {}
    for number, rule in enumerate(settings.transforms, 1):
        if not rule.routes:
            continue
        problem = ""
        if settings.delivery != "exactly_once":
            problem = (
                "needs delivery=exactly_once: with at_least_once, a crash could leave the topics "
                "at different positions"
            )
        elif settings.skip_replicated:
            problem = (
                f"cannot be used with {SKIP}=true: the flow in the other direction would copy the "
                "records back under other names"
            )
        policy = policy_for(settings, spec.source.alias, spec.target.alias)
        for name in rule.routes:
            if policy.is_reserved(name) or name == spec.dead_letter_topic:
                problem = problem or (
                    f"names {name}, which Kafka, MirrorMaker 2 or Understudy use themselves"
                )
            if (other := owners.setdefault(name.replace(".", "_"), number)) != number:
                problem = problem or (
                    f"names {name}, as rule {other} does or almost: a target topic belongs to one "
                    "source topic, so that groups can resume there"
                )
        if problem:
            raise InvalidSettings(
                {TRANSFORMS: [f"{TRANSFORMS}, rule {number}, routes: {problem}."]}
            )


def check_replicated(spec: FlowSpec, writers: Iterable[FlowSpec]) -> None:
    """Check `skip.replicated`. `writers` are the flows that write on the source of `spec`."""
    for writer in writers if spec.settings.skip_replicated else ():
        if writer.settings.delivery != "exactly_once":
            raise InvalidSettings(
                {
                    SKIP: [
                        f"{spec.name} skips records that other flows wrote on "
                        f"{spec.source.alias} ({SKIP}=true), but {writer.name} writes there with "
                        "delivery=at_least_once: a copy could be read before the offset run "
                        f"that marks it as a copy. Set delivery=exactly_once on {writer.name}."
                    ]
                }
            )


LONGEST_PATH = 6
MOST_PATHS = 500


def check_flow(
    spec: FlowSpec, others: Sequence[FlowSpec], ids: Mapping[str, str] | None = None
) -> list[str]:
    """Return warnings about a flow. Raises InvalidSettings for a cycle or a collision.

    - `others`: all flows; an older version of the flow itself among them is ignored.
    - `ids`: the known cluster ids by alias.
    """
    if spec.source.alias == spec.target.alias:
        sentence = f"A flow needs two clusters: {spec.source.alias} is both source and target."
        raise InvalidSettings({"target": [sentence]})
    check_named(spec)
    check_expressions(spec)
    check_schemas(spec)

    check_routes(spec)
    rest = [other for other in others if other.name != spec.name]
    places = _Places([spec, *rest], ids or {})
    flow, flows = _flow(spec, places), [_flow(other, places) for other in rest]
    warnings = _same_cluster(flow) + _dead_patterns(spec) + _unused_rules(flow)
    warnings += check_renames(flow)
    for path in _paths(flow, flows):
        _check_loop(path)
    _check_dead_letters(flow, flows)
    _check_routes(flow, flows)
    warnings += _copied_back(flow, flows)
    check_replicated(spec, [other.spec for other in flows if other.target == flow.source])
    for other in flows:
        if other.source == flow.target:
            check_replicated(other.spec, [spec])
    for other in flows:
        if other.target == flow.target:
            warnings += _check_collision(flow, other) + _shared_subjects(spec, other.spec)
    return warnings


def _shared_subjects(spec: FlowSpec, other: FlowSpec) -> list[str]:
    """Return a warning if both flows may register one subject in the target's registry."""
    sides = (spec.settings, other.settings)
    formats = {side.sync_schemas_subject_format for side in sides}
    if len(formats) > 1 or not all(side.sync_schemas_enabled for side in sides):
        return []
    ours, theirs = (
        both(
            of_patterns(side.sync_schemas_subjects),
            invert(of_patterns(side.sync_schemas_subjects_exclude)),
        )
        for side in sides
    )
    try:
        if example(both(ours, theirs)) is None:
            return []
    except Undecided:
        pass
    return [
        f"{spec.name} and {other.name} may register the same subjects in the schema registry of "
        f"{spec.target.alias}. A subject that differs between their sources becomes a conflict. "
        "Give one of them a prefix or a context with sync.schemas.subject.format."
    ]


def _check_dead_letters(flow: FlowNames, others: Sequence[FlowNames]) -> None:
    """Raise InvalidSettings if a flow copies into the dead-letter topic of this or another flow."""
    own = flow.spec.dead_letter_topic
    if own is not None and flow.policy.is_reserved(own):
        sentence = (
            f"{own} cannot be the dead-letter topic: Kafka, MirrorMaker 2 or Understudy use this "
            "name themselves. Choose another one."
        )
        raise InvalidSettings({DEAD_LETTER_TOPIC: [sentence]})
    writers = [flow, *(other for other in others if other.target == flow.target)]
    for holder in writers:
        topic = holder.spec.dead_letter_topic
        for writer in writers if topic is not None else ():
            if holder is not flow and writer is not flow:
                continue
            if topic is not None and writer.may_write(topic):
                origin = topic.removeprefix(writer.prefix)
                what, other = origin, f"exclude {origin}"
                if writer.policy.renames:
                    what, other = "a topic", f"change {RENAME}"
                sentence = (
                    f"{topic} on {flow.spec.target.alias} is the dead-letter topic of "
                    f"{holder.spec.name}, and {writer.spec.name} would copy {what} of "
                    f"{writer.spec.source.alias} into it. Choose another {DEAD_LETTER_TOPIC}, or "
                    f"{other}."
                )
                raise InvalidSettings({DEAD_LETTER_TOPIC: [sentence]})


def _check_routes(flow: FlowNames, others: Sequence[FlowNames]) -> None:
    """Raise InvalidSettings if a route of this or another flow is also written otherwise."""
    writers = [flow, *(other for other in others if other.target == flow.target)]
    for holder in writers:
        for route in _routes(holder):
            for writer in writers:
                if holder is not flow and writer is not flow:
                    continue
                what = "a topic" if writer.policy.renames else route.removeprefix(writer.prefix)
                if writer.may_write(route):
                    why = f"{writer.spec.name} would copy {what} of {writer.spec.source.alias}"
                elif writer.spec.dead_letter_topic == route:
                    why = f"{writer.spec.name} writes its dead letters"
                elif writer is not holder and route in _routes(writer):
                    why = f"a rule of {writer.spec.name} routes records"
                else:
                    continue
                sentence = (
                    f"{route} on {flow.spec.target.alias} is a route in a rule of "
                    f"{holder.spec.name}, and {why} into it: their records would be mixed. Choose "
                    "another name in routes."
                )
                raise InvalidSettings({TRANSFORMS: [sentence]})


def _copied_back(flow: FlowNames, others: Sequence[FlowNames]) -> list[str]:
    """Warn about flows that would copy a route back: by its name it is a topic of the target."""
    return [
        f"{back.spec.name} would copy {route}, a route of {there.spec.name}, back to "
        f"{back.spec.target.alias}. Exclude it there if that is not wanted."
        for there, back in [pair for other in others for pair in ((flow, other), (other, flow))]
        if back.source == there.target and back.target == there.source
        for route in _routes(there)
        if TopicSelection(back.spec.settings, back.policy).decide(route).replicated
    ]


def _routes(flow: FlowNames) -> list[str]:
    return [route for rule in flow.spec.settings.transforms for route in rule.routes]


def _dead_patterns(spec: FlowSpec) -> list[str]:
    """Warn about patterns that no topic name can match."""
    lists = {"topics": spec.settings.topics, "topics.exclude": spec.settings.topics_exclude}
    return [
        f"{dead[:60]!r} in {name} of {spec.name} matches no topic: a topic name has only the "
        "characters a-z, A-Z, 0-9, dot, underscore and dash."
        for name, elements in lists.items()
        for dead in without_topics(elements)
    ]


def _unused_rules(flow: FlowNames) -> list[str]:
    """Warn about rules that apply to no topic of the flow; undecided patterns give no warning."""
    rules = flow.spec.settings.transforms
    if not rules:
        return []
    warnings = []
    try:
        wanted = left = either(flow.topics(), text(HEARTBEATS))
    except Undecided:
        return []
    for number, rule in enumerate(rules, 1):
        named = f"Rule {number} ({rule.topics}) of {TRANSFORMS} applies to no topic"
        try:
            own = of_patterns([rule.topics])
            if example(both(own, wanted)) is None:
                warnings.append(f"{named}: the flow selects none that it matches.")
            elif example(both(own, left)) is None:
                warnings.append(f"{named}: earlier rules match all of them.")
        except Undecided:
            continue
        left = both(left, invert(own))
    return warnings


class _Places:
    """Which aliases mean one cluster, by their ids and addresses."""

    def __init__(self, specs: Sequence[FlowSpec], ids: Mapping[str, str]) -> None:
        self._place: dict[str, str] = {}
        owner: dict[str, str] = {}
        for cluster in (side for spec in specs for side in (spec.source, spec.target)):
            place = self.of(cluster.alias)
            known = ids.get(cluster.alias)
            for address in addresses(cluster) | ({f"id {known}"} if known else set()):
                other = self.of(owner.setdefault(address, place))
                self._place = {k: other if v == place else v for k, v in self._place.items()}
                place = other

    def of(self, alias: str) -> str:
        return self._place.setdefault(alias, alias)


def addresses(cluster: ClusterSpec) -> set[str]:
    return {server.strip().lower() for server in cluster.bootstrap_servers.split(",")} - {""}


def _flow(spec: FlowSpec, places: _Places) -> FlowNames:
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    return FlowNames(spec, policy, places.of(spec.source.alias), places.of(spec.target.alias))


def _same_cluster(flow: FlowNames) -> list[str]:
    if flow.source != flow.target:
        return []
    sentence = (
        f"{flow.spec.source.alias} and {flow.spec.target.alias} share a bootstrap address or a "
        "cluster ID: they look like one cluster under two names"
    )
    if flow.keeps_names:
        why = f"{sentence}, and a policy that keeps names would replicate every topic onto itself."
        raise InvalidSettings({"replication.policy.class": [why]})
    return [f"{sentence}."]


def _paths(flow: FlowNames, others: Sequence[FlowNames]) -> Iterator[list[FlowNames]]:
    """Yield paths from the flow's target to its source that visit each cluster at most once."""
    stack, found = [[flow]], 0
    while stack and found < MOST_PATHS:
        path = stack.pop()
        if path[-1].target == flow.source:
            found += 1
            yield path
        elif len(path) < LONGEST_PATH:
            seen = {step.source for step in path} - {flow.source}
            stack += [
                [*path, step]
                for step in others
                if step.source == path[-1].target and step.target not in seen
            ]


def _check_loop(path: list[FlowNames]) -> None:
    """Raise InvalidSettings if a record would be replicated around the path forever."""
    # Each leaves out what the one before it wrote: nothing takes a second step.
    renames = any(step.policy.renames for step in path)
    if all(step.spec.settings.skip_replicated for step in path):
        if renames:
            check_growing_names(path)
        return
    if renames:
        check_renamed_loop(path)
        return
    if len(path) == 1:
        return
    kept = all(step.keeps_names for step in path)
    if not kept and not _simulates(path, "a"):
        # The cycle rule reads the prefixes and stops the loop itself.
        return
    languages, name = [], ""
    for step in path * (1 if kept else 2):
        languages.append((step, name))
        name = step.prefix + name
    try:
        topic = example(both(*(after_text(s.topics(), n) for s, n in languages)))
    except Undecided:
        topic = None if not kept else "?"
    if topic is None or (not kept and not _simulates(path, topic)):
        return
    names = " and ".join(step.spec.name for step in path)
    detail = "keep topic names" if kept else "rename topics in a way that hides their origin"
    which = "The topics of these flows" if topic == "?" else f"A topic such as {topic}"
    raise InvalidSettings(
        {
            "replication.policy.class": [
                f"{which} would be replicated in an endless loop: {names} form a cycle and "
                f"{detail}. Use the default policy with one separator, give the flows different "
                "topics, or set skip.replicated=true on each of them."
            ]
        }
    )


def _simulates(path: list[FlowNames], topic: str) -> bool:
    """Return whether a topic passes the cycle rule of every step for two rounds."""
    for step in path * 2:
        if step.policy.is_cycle(topic):
            return False
        topic = step.policy.remote_topic(topic)
    return True


def _check_collision(flow: FlowNames, other: FlowNames) -> list[str]:
    """Return warnings. Raises InvalidSettings if both certainly write one topic of the target."""
    both_keep = flow.keeps_names and other.keeps_names
    where = flow.spec.target.alias
    names = f"{flow.spec.name} and {other.spec.name}"
    if flow.spec.source.alias == other.spec.source.alias:
        sentence = (
            f"{where} and {other.spec.target.alias} share a bootstrap address or a cluster ID: "
            f"they look like one cluster under two names. {names} would keep their positions in "
            f"one topic there. Change {other.spec.name} instead of adding another flow."
        )
        raise InvalidSettings({"target": [sentence]})
    renames = bool(flow.policy.renames or other.policy.renames)
    are_apart = not flow.prefix.startswith(other.prefix) and not other.prefix.startswith(
        flow.prefix
    )
    if are_apart and not renames:
        return []
    try:
        topic = example(both(flow.remote_topics(), other.remote_topics()))
    except Undecided:
        sentence = (
            f"Cannot determine whether {names} would write the same topics on {where}. List the "
            "topics by name, or use simpler patterns."
        )
        if both_keep or renames:
            raise InvalidSettings({"topics": [sentence]}) from None
        return [sentence]
    if topic is None:
        return []
    if renames:
        sentence = (
            f"{names} could both write topics on {where}, for example {topic}: their records would "
            f"be mixed. Change {RENAME}, or select different topics in each flow."
        )
        raise InvalidSettings({RENAME: [sentence]})
    origins = [(side, topic.removeprefix(side.prefix)) for side in (flow, other)]
    if both_keep or all(side.names(origin) for side, origin in origins):
        sentence = (
            f"{names} would both write topics on {where}, for example {topic}: their records "
            "would be mixed. Select different topics in each flow, or use the default policy."
        )
        raise InvalidSettings({"topics": [sentence]})
    origin = " and ".join(f"{name} on {side.spec.source.alias}" for side, name in origins)
    return [
        f"{names} would both write {topic} on {where} if {origin} existed: their records would "
        "be mixed."
    ]
