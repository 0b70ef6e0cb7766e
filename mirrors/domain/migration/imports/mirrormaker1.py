"""Reads MirrorMaker 1: its command's options with the two files that they name, in one text.

`--consumer.config` and `--producer.config` each begin a section with the file's lines, up to the
next option. MirrorMaker 1 copied only records, under unchanged names.
"""

from __future__ import annotations

import re

from mirrors.domain.java_properties import read_properties
from mirrors.domain.migration.imports.drafts import FlowDraft, ParsedConfiguration
from mirrors.domain.migration.imports.line_verdicts import VerdictCollector
from mirrors.domain.migration.imports.mm2_precedence import Entries, Entry, is_security
from mirrors.domain.migration.imports.secret_references import providers
from mirrors.domain.settings.table import IDENTITY_POLICY

_OPTION = re.compile(r"\s*--([a-z.]+)(?:[ =](.*))?\s*")
_FILES = ("consumer.config", "producer.config")
_IDLE = {
    "new.consumer": "there is one kind of consumer",
    "offset.commit.interval.ms": "positions are committed with the data; see commit.interval.ms",
    "abort.on.send.failure": "a record that cannot be replicated always stops its partition",
    "group.id": "the group's offsets are not imported: the flow starts where "
    "auto.offset.reset says, which defaults to latest",
    "client.id": "Understudy names its clients",
}
# What MirrorMaker 1 did without being told, in MM2's words.
_MEANING = {
    "replication.policy.class": IDENTITY_POLICY,
    "topics.exclude": "__.*",
    "heartbeats.replication.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "emit.offset-syncs.enabled": "false",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "source.consumer.auto.offset.reset": "latest",
}


def read_mirrormaker1(text: str, notes: VerdictCollector) -> ParsedConfiguration:
    """Return the reading of a command line and its two files; errors are in the notes."""
    sections, options = _sections(text, notes)
    source, target = (options.pop(name, Entry(name)).value.strip() for name in ("source", "target"))
    topics = options.pop("whitelist", None) or options.pop("include", None)
    wanted_by = topics or Entry("", None, "--whitelist")
    if topics is None:
        notes.refuse("--whitelist", "it is missing: it says which topics are replicated")
    connector = {
        name: Entry(value, wanted_by.number, f"{name} (as MirrorMaker 1)")
        for name, value in _MEANING.items()
    }
    connector |= _options(topics, options, notes)
    worker: Entries = {}
    reading = ParsedConfiguration(named_by=wanted_by)
    for part, alias in (("consumer.config", source), ("producer.config", target)):
        given = sections.get(part, {})
        reading.providers |= providers(given)
        reading.clusters[alias] = {name: e for name, e in given.items() if is_security(name)}
        for name, entry in given.items():
            if name in _IDLE or name.startswith("config.providers"):
                why = _IDLE.get(name, "references stay references; nothing is read here")
                notes.say(entry, "different", why)
            elif not is_security(name) and part == "consumer.config":
                connector[f"source.consumer.{name}"] = entry
            elif not is_security(name):
                worker[f"producer.{name}"] = entry
    reading.flows = [FlowDraft(source, target, connector, worker, wanted_by)]
    return reading


def _options(topics: Entry | None, options: Entries, notes: VerdictCollector) -> Entries:
    found = {}
    if topics is not None:
        words = [part.strip().strip("\"'") for part in topics.value.strip().strip("\"'").split(",")]
        found["topics"] = Entry(",".join(words), topics.number, topics.key)
    for name, entry in options.items():
        if name == "num.streams":
            found["tasks.max"] = entry
        elif name in _IDLE:
            notes.say(entry, "different", _IDLE[name])
        else:
            notes.say(entry, "unsupported", f"{entry.key} has no counterpart here")
    return found


def _sections(text: str, notes: VerdictCollector) -> tuple[dict[str, Entries], Entries]:
    """Return the sections; each file's lines keep their numbers in the whole text."""
    bodies: dict[str, list[str]] = {}
    options: Entries = {}
    inside: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        found = _OPTION.fullmatch(line)
        if found is not None:
            inside = found[1] if found[1] in _FILES else None
            if inside is not None:
                bodies[inside] = [""] * number
                notes.say(Entry("", number, f"--{inside}"), "used", "what follows is that file")
            else:
                options[found[1]] = Entry(found[2] or "", number, f"--{found[1]}")
        elif inside is not None:
            bodies[inside].append(line)
        elif line.strip() and not line.lstrip().startswith(("#", "bin/", "kafka-mirror-maker")):
            why = "it is before --consumer.config and --producer.config, so it belongs to no file"
            notes.say(Entry("", number, line.partition("=")[0].strip()), "unsupported", why)
    sections = {}
    for name, lines in bodies.items():
        read, faults = read_properties("\n".join(lines))
        for fault in faults:
            notes.say(Entry("", fault.number, "(line)"), "unsupported", fault.reason)
        sections[name] = {line.key: Entry(line.value, line.number, line.key) for line in read}
    for name in _FILES:
        if name not in sections:
            notes.refuse(f"--{name}", "it is missing, and the lines of its file below it")
    return sections, options
