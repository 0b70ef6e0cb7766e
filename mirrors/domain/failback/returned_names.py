"""Names of renamed topics in a reverse flow: each gets its source topic's name.

A rule of `topic.rename` has no inverse in general. So the stored divergence points tell the source
topic of each remote topic, and the reverse flow gets one exact rule for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mirrors.domain.errors import KafkaRefused
from mirrors.domain.failback.divergence import Divergence
from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.patterns.renames import RENAME, exact_rules, format_renames, literal_of
from mirrors.domain.replication_policy import ReplicationPolicy, policy_for
from mirrors.domain.settings.validation import LONGEST_VALUE
from mirrors.domain.specs import ClusterSpec, FlowSpec


def returned_names(points: Iterable[Divergence], policy: ReplicationPolicy) -> dict[str, str]:
    """Return the source topic of each renamed remote topic to which producers write.

    `policy`: of the forward flow. Raises KafkaRefused if a remote topic has several source topics.
    """
    found: dict[str, str] = {}
    for point in points:
        if policy.renamed(point.topic) is None or not policy.continues_in_remote(point.topic):
            continue
        known = found.setdefault(point.remote_topic, point.topic)
        if known != point.topic:
            raise KafkaRefused(
                f"{point.remote_topic} on {policy.target_alias} has records of {known} and of "
                f"{point.topic}, so the reverse flow cannot give it the name of either. Exclude "
                f"one of them from {policy.source_alias}->{policy.target_alias}, delete its "
                "divergence points with its position, and fail back again.",
                code="ambiguous_names",
            )
    return found


def with_returned_names(
    properties: Mapping[str, str],
    names: Mapping[str, str],
    *,
    source: ClusterSpec,
    target: ClusterSpec,
) -> dict[str, str]:
    """Return the settings of a reverse flow with a rule for each topic that has none yet.

    - `names`: of `returned_names`. `source` and `target`: of the reverse flow.
    - Topics that its setting `topics` does not match are added there by name.
    """
    spec = FlowSpec.build(source=source, target=target, properties=properties)
    policy = policy_for(spec.settings, source.alias, target.alias)
    missing = {here: there for here, there in names.items() if policy.remote_topic(here) != there}
    found = dict(properties)
    if missing:
        rest = [rule for rule in policy.renames.rules if literal_of(rule.pattern) not in missing]
        found[RENAME] = format_renames([*exact_rules(missing), *rest])
    selection = TopicSelection(spec.settings, policy)
    unmatched = sorted(name for name in names if _is_unmatched(selection, name))
    if unmatched:
        elements = [*spec.settings.topics, *(name.replace(".", "\\.") for name in unmatched)]
        found["topics"] = ",".join(elements)
    _check_length(found, len(names), spec.name)
    return found


def _is_unmatched(selection: TopicSelection, name: str) -> bool:
    return any(
        rule.rule == "topics" and rule.passed is False for rule in selection.decide(name).rules
    )


def _check_length(properties: Mapping[str, str], names: int, flow: str) -> None:
    for key in (RENAME, "topics"):
        if len(properties.get(key, "")) > LONGEST_VALUE:
            raise KafkaRefused(
                f"The names of {names:,} renamed topics are too long for {key} of {flow}. Create "
                f"{flow} with expressions in {RENAME} that give these topics their names on "
                "the source, then fail back again.",
                code="too_many_names",
            )
