"""Reads `mm2.properties`: its clusters and flows, and verdicts on lines that belong to neither."""

from __future__ import annotations

import json

from mirrors.domain.java_properties import read_properties
from mirrors.domain.migration.imports.drafts import FlowDraft, ParsedConfiguration
from mirrors.domain.migration.imports.ignored_keys import is_read, judge_unknown
from mirrors.domain.migration.imports.line_verdicts import NO_COMMENT, VerdictCollector
from mirrors.domain.migration.imports.mm2_precedence import (
    CONNECTOR_NAMES,
    OLD_NAMES,
    Entries,
    Entry,
    aliases,
    by_name,
    cluster_settings,
    connector_settings,
    is_security,
    is_true,
    pairs,
    worker_settings,
)
from mirrors.domain.migration.imports.secret_references import providers
from mirrors.domain.settings.client_properties import COMMON
from mirrors.domain.settings.table import KEYS
from mirrors.domain.settings.unsupported_mm2 import REFUSED

MOST_LINES = 5000
MOST_CLUSTERS = 50
MOST_FLOWS = 50
_ROLES = ("consumer.", "producer.", "admin.")
# A worker has them too, for connectors that set none.
_CONVERTERS = ("key.converter", "value.converter", "header.converter")


def read_mm2(text: str, notes: VerdictCollector) -> ParsedConfiguration:
    """Return the reading of an `mm2.properties`; errors are in the notes."""
    file = read_file(text, notes)
    named = aliases(file)
    reading = ParsedConfiguration(providers=providers(file))
    reading.named_by = file.get("clusters", reading.named_by)
    if not named or len(named) > MOST_CLUSTERS or len(file) > MOST_LINES:
        notes.say(
            reading.named_by,
            "unsupported",
            f"a file must name 1 to {MOST_CLUSTERS} clusters in `clusters` and have at most "
            f"{MOST_LINES} keys",
        )
        return reading
    notes.say(reading.named_by, "used", "the clusters")
    reading.clusters = {alias: cluster_settings(file, alias) for alias in named}
    _read_flows(file, reading, notes)
    return reading


def judge_unread(text: str, reading: ParsedConfiguration, notes: VerdictCollector) -> None:
    """Add a verdict for every line that no cluster and no flow has used."""
    for entry in read_file(text, VerdictCollector()).values():
        if entry.number is None or notes.heard(entry):
            continue
        if reading.clusters:
            _judge(entry, entry.key, reading, notes)
        else:
            notes.say(entry, "different", "not judged: `clusters` names no cluster of it")


def judge_remaining(reading: ParsedConfiguration, notes: VerdictCollector) -> None:
    """Do the same for texts of other kinds, whose lines all belong to a flow or its worker."""
    for flow in reading.flows:
        for name, entry in {**flow.worker, **flow.connector}.items():
            if entry.number is None or notes.heard(entry):
                continue
            if name.startswith(("source.", "target.", *_ROLES)):
                why = "it applies to a client that replicates no records"
                notes.say(entry, "different", f"{why}, so it is not imported")
            elif is_security(name):
                why = "MirrorMaker 2's connectors read it only below source.cluster. and target."
                notes.say(entry, "different", f"{why}cluster., so it is ignored here too")
            else:
                verdict, why = judge_unknown(name, entry)
                notes.say(entry, verdict, why)
    for entries in reading.clusters.values():
        for name, entry in entries.items():
            if entry.number is not None and not notes.heard(entry):
                why = (
                    f"MirrorMaker 2 passes {name} of a cluster to no client that replicates records"
                )
                notes.say(entry, "different", f"{why}, so it is ignored here too")


def read_file(text: str, notes: VerdictCollector) -> Entries:
    """Return the text as a table. An old name is used as the new one if that is missing."""
    lines, faults = read_properties(text)
    for fault in faults:
        notes.say(Entry("", fault.number, "(line)"), "unsupported", fault.reason)
    file = by_name((line.number, line.key, line.value) for line in lines)
    for line in lines:
        if (last := file[line.key].number) != line.number:
            why = f"line {last} repeats the key, and the last one applies"
            notes.say(Entry("", line.number, line.key), "different", why)
    rename_old(file, notes)
    return file


def rename_old(file: Entries, notes: VerdictCollector) -> None:
    """Give settings with names of MM2 before 4.0 their new ones, unless those are there too."""
    for old, new in OLD_NAMES.items():
        for key in [key for key in file if key == old or key.endswith(f".{old}")]:
            name = key.removesuffix(old) + new
            if name in file:
                why = f"an old name: {name} in line {file[name].number} applies"
                notes.say(file[key], "different", why)
            else:
                file[name] = file[key]
            del file[key]


def _read_flows(file: Entries, reading: ParsedConfiguration, notes: VerdictCollector) -> None:
    everywhere = is_true(file.get("enabled"))
    started = list(pairs(file))
    _judge_blanks(file, started, notes)
    for source, target in started:
        own = file.get(f"{source}->{target}.enabled")
        if own is None and not everywhere:
            continue
        wanted_by = own or file["enabled"]
        if wanted_by.value.strip().lower() not in {"true", "false"}:
            shown = wanted_by.value.strip()[:60]
            hint = f". {NO_COMMENT}" if "#" in shown else ""
            why = (
                f"{wanted_by.key} must be true or false, not {shown!r}: MirrorMaker 2 starts no "
                f"connector of {source}->{target}{hint}"
            )
            meant_false = shown.lower().startswith("false")
            notes.say(wanted_by, "different" if meant_false else "unsupported", why)
        elif is_true(wanted_by):
            notes.say(
                wanted_by,
                "used",
                f"{source}->{target} is created, stopped until somebody starts it",
            )
            if len(reading.flows) < MOST_FLOWS:
                reading.flows.append(
                    FlowDraft(
                        source,
                        target,
                        connector_settings(file, source, target),
                        worker_settings(file, source, target),
                        wanted_by,
                    )
                )
            else:
                notes.say(wanted_by, "unsupported", f"a file may define at most {MOST_FLOWS} flows")
    _take_logins(reading)
    if not reading.flows:
        why = "no flow is enabled: write S->T.enabled = true for each flow to replicate"
        notes.refuse("S->T.enabled", why)


def _take_logins(reading: ParsedConfiguration) -> None:
    """Give a source without a login that of the clients of its flow, if all have the same."""
    targets = {flow.target for flow in reading.flows}
    for flow in reading.flows:
        cluster = reading.clusters[flow.source]
        own = [name for name in cluster if is_security(name) and name != "bootstrap.servers"]
        if own or flow.source in targets:
            continue
        consumer, admin = (_login(flow.connector, role) for role in ("consumer.", "admin."))
        texts = ({name: entry.value for name, entry in one.items()} for one in (consumer, admin))
        if len({json.dumps(one, sort_keys=True) for one in texts}) == 1:
            cluster |= consumer


def _login(connector: Entries, role: str) -> Entries:
    """Return how a client of a flow's source connects; `source.` in its prefix has precedence."""
    return {
        name.removeprefix(prefix): entry
        for prefix in (role, f"source.{role}")
        for name, entry in connector.items()
        if name.startswith(prefix) and is_security(name.removeprefix(prefix))
        and name != f"{prefix}bootstrap.servers"
    }  # fmt: skip


def _judge_blanks(file: Entries, started: list[tuple[str, str]], notes: VerdictCollector) -> None:
    """Refuse flows that only a blank switches off: MM2 reads `true ` as false there."""
    for source in aliases(file):
        for target in aliases(file):
            own = file.get(f"{source}->{target}.enabled")
            if source != target and (source, target) not in started and is_true(own):
                why = (
                    f"{source}->{target}.enabled has a blank behind true, and heartbeats are "
                    "switched off, or their line has one too, so MirrorMaker 2 starts nothing: "
                    "remove the blanks"
                )
                notes.say(own or Entry(""), "unsupported", why)


def _judge(entry: Entry, key: str, reading: ParsedConfiguration, notes: VerdictCollector) -> None:
    known, flows = list(reading.clusters), {flow.name for flow in reading.flows}
    if key.startswith("config.providers"):
        why = "references stay references: no class is loaded, and nothing is read here"
        notes.say(entry, "different", why)
        return
    if "->" in key:
        _judge_of_flow(entry, key, known, flows, notes)
        return
    fitting = [alias for alias in known if key.startswith(f"{alias}.")]
    if fitting:
        alias = max(fitting, key=len)
        _judge_of_cluster(entry, key.removeprefix(f"{alias}."), notes)
    elif stronger := _stronger(key, reading):
        lines = ", ".join(str(number) for number in stronger[:10])
        why = f"overridden for every imported flow, by line {lines}"
        notes.say(entry, "different", why)
    else:
        _judge_of_top(entry, key, reading, notes)


def _stronger(key: str, reading: ParsedConfiguration) -> list[int]:
    """Return the lines that override a line without a prefix, if each flow has one."""
    found = set()
    for flow in reading.flows:
        own = flow.connector.get(key) or flow.worker.get(key)
        if own is None or own.number is None or own.key == key:
            return []
        found.add(own.number)
    return sorted(found)


def _judge_of_flow(
    entry: Entry, key: str, known: list[str], flows: set[str], notes: VerdictCollector
) -> None:
    source, _, rest = key.partition("->")
    target = max((alias for alias in known if rest.startswith(f"{alias}.")), key=len, default="")
    name = rest.removeprefix(f"{target}.")
    if source not in known or not target:
        why = f"{key} names a flow of clusters that `clusters` does not list"
        notes.say(entry, "ignored", why)
    elif source == target:
        notes.say(entry, "ignored", f"a flow needs two clusters: {source} is both")
    elif f"{source}->{target}" not in flows:
        why = (
            f"{source}->{target} is not enabled, so no flow is created (MirrorMaker 2 would still "
        )
        notes.say(entry, "different", why + "write heartbeats)")
    elif name.startswith(("source.cluster.", "target.cluster.")):
        why = f"{key} changes a cluster for one flow; here a cluster is the same for all"
        notes.say(entry, "unsupported", why)
    else:
        verdict, why = judge_unknown(name, entry)
        notes.say(entry, verdict, why)


def _judge_of_cluster(entry: Entry, name: str, notes: VerdictCollector) -> None:
    if name.startswith(_ROLES):
        why = (
            "no imported flow uses it: records are consumed from sources and produced to "
            "targets, and every client of a cluster has the cluster's deadlines"
        )
        notes.say(entry, "different", why)
    elif (name in KEYS or name in COMMON or name in CONNECTOR_NAMES) and name not in _CONVERTERS:
        why = (
            "MirrorMaker 2 passes it to none of its replicating clients, so it is "
            "ignored here too. "
        )
        notes.say(entry, "different", f"{why}Give {name} to a flow: S->T.…")
    elif is_security(name):
        notes.say(entry, "different", "the cluster's other settings do not use it")
    elif name == "exactly.once.source.support":
        notes.say(entry, "different", "no imported flow ends there")
    else:
        verdict, why = judge_unknown(name, entry)
        role = next((role for role in ("consumer", "producer") if is_read(role, name)), None)
        if verdict == "ignored" and role is not None:
            meant = entry.key.removesuffix(name) + f"{role}.{name}"
            why = f"{entry.key} names no kind of client. Did you mean {meant}?"
        notes.say(entry, verdict, why)


def _judge_of_top(
    entry: Entry, key: str, reading: ParsedConfiguration, notes: VerdictCollector
) -> None:
    ignored = key.startswith((*_ROLES, "source.", "target.", "transforms.", "predicates."))
    known = key in KEYS or key in REFUSED
    if ignored or (known and key not in CONNECTOR_NAMES and key not in _OF_THE_PROCESS):
        why = "MirrorMaker 2 ignores it without the name of a cluster or flow before it, so it is "
        notes.say(entry, "different", f"{why}ignored here too. Write S->T.{key} or S.{key}")
    elif is_security(key):
        notes.say(entry, "different", "every cluster has its own, or does not use it")
    elif key in KEYS and not reading.flows:
        notes.say(entry, "different", "it applies to each flow, but no flow is enabled")
    else:
        verdict, why = judge_unknown(key, entry)
        notes.say(entry, verdict, why)


_OF_THE_PROCESS = frozenset(
    {"dedicated.mode.enable.internal.rest", "listeners", "response.http.headers.config",
     "config.providers", "clusters"}
)  # fmt: skip
