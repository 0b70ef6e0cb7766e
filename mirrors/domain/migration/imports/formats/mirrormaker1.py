"""Reads MirrorMaker 1: its command, read as a shell reads it, with the lines of its two files.

The lines of a file follow `--consumer.config` or `--producer.config` at the end of a line, or a
line with the file's name, such as `# consumer.properties` or `==> consumer.properties <==`.
MirrorMaker 1 copied only records, under unchanged names.
"""

from __future__ import annotations

import dataclasses
import shlex

from mirrors.domain.java_properties import read_properties
from mirrors.domain.migration.imports.drafts import FlowDraft, ParsedConfiguration
from mirrors.domain.migration.imports.line_verdicts import Judgment, VerdictCollector
from mirrors.domain.migration.imports.mm2_precedence import Entries, Entry, is_security
from mirrors.domain.migration.imports.secret_references import providers
from mirrors.domain.settings.table import IDENTITY_POLICY

_COMMANDS = ("kafka-mirror-maker", "kafka.tools.MirrorMaker")
_FILES = ("consumer.config", "producer.config")
# Options without a value.
_FLAGS = frozenset({"new.consumer", "help", "version"})
_IDLE = {
    "new.consumer": "there is one kind of consumer",
    "offset.commit.interval.ms": "positions are committed with the data; see commit.interval.ms",
    "abort.on.send.failure": "a record that cannot be replicated always stops its partition",
    "group.id": "the group's offsets are not imported: the flow starts where "
    "auto.offset.reset says, which defaults to latest",
    "client.id": "Understudy names its clients",
}
_UNSUPPORTED = {
    "message.handler": "it loads code; rules of a flow filter and change records",
    "message.handler.args": "it loads code; rules of a flow filter and change records",
    "consumer.rebalance.listener": "it loads code",
    "rebalance.listener.args": "it loads code",
    "blacklist": "MirrorMaker 1 removed it: write a --whitelist, or topics.exclude of a flow",
}
# Of clients before Kafka 0.9.
_OLD_ADDRESSES = ("zookeeper.connect", "metadata.broker.list")
_OLD = ("zookeeper.", "queue.", "rebalance.", "request.required.acks", "producer.type",
        "compression.codec", "serializer.class")  # fmt: skip
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
    command = _Command(notes)
    command.read(text)
    sections, options = command.sections(), command.options
    source, target = (options.pop(name, Entry(name)).value.strip() for name in ("source", "target"))
    topics = _topics(options, notes)
    wanted_by = topics or Entry("", None, "--whitelist")
    connector = {
        name: Entry(value, wanted_by.number, f"{name} (as MirrorMaker 1)")
        for name, value in _MEANING.items()
    }
    if topics is not None:
        connector["topics"] = topics
    connector |= _options(options, notes)
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
            elif name in _OLD_ADDRESSES:
                why = "clients since Kafka 0.9 need brokers: write bootstrap.servers=HOST:9092"
                notes.say(entry, "unsupported", why)
            elif name.startswith(_OLD):
                notes.say(entry, "different", "clients since Kafka 0.9 have no such property")
            elif not is_security(name) and part == "consumer.config":
                connector[f"source.consumer.{name}"] = entry
            elif not is_security(name):
                worker[f"producer.{name}"] = entry
    reading.flows = [FlowDraft(source, target, connector, worker, wanted_by)]
    return reading


def _topics(options: Entries, notes: VerdictCollector) -> Entry | None:
    """Return the pattern of `--include`, which MirrorMaker 1 prefers, or of `--whitelist`."""
    include, whitelist = options.pop("include", None), options.pop("whitelist", None)
    if include is not None and whitelist is not None:
        notes.say(whitelist, "different", f"--include in line {include.number} takes precedence")
    topics = include or whitelist
    if topics is None:
        notes.refuse("--whitelist", "it is missing: it says which topics are replicated")
        return None
    # Kafka's own list accepts quotation marks inside the shell's.
    words = [part.strip().strip("\"'") for part in topics.value.strip().split(",")]
    return Entry(",".join(words), topics.number, topics.key)


def _options(options: Entries, notes: VerdictCollector) -> Entries:
    found = {}
    for name, entry in options.items():
        if name == "num.streams":
            found["tasks.max"] = entry
        elif name in _IDLE:
            notes.say(entry, "different", _IDLE[name])
        else:
            why = _UNSUPPORTED.get(name, "MirrorMaker 1 has no such option")
            notes.say(entry, "unsupported", f"{entry.key} has no counterpart here: {why}")
    return found


@dataclasses.dataclass
class _File:
    """One of the two files: the option that names it, its path and its lines in the text."""

    option: Entry
    path: str = ""
    lines: list[str] | None = None
    is_second: bool = False


class _Command:
    """Reads a text line by line: words of the command, or lines of one of its files."""

    def __init__(self, notes: VerdictCollector) -> None:
        self.options: Entries = {}
        self._notes = notes
        self._files: dict[str, _File] = {}
        self._inside: _File | None = None
        # An option that waits for its value.
        self._open: str | None = None
        self._number = 0

    def read(self, text: str) -> None:
        continued = False
        for number, line in enumerate(text.splitlines(), start=1):
            self._number = number
            body = line.strip()
            if continued or self._is_command(body):
                continued = body.endswith("\\")
                self._inside = None
                self._read_options(body.removesuffix("\\"))
                if not continued:
                    self._end_command()
            elif (named := self._named_in(body)) is not None:
                self._begin(named)
            elif self._inside is not None and self._inside.is_second:
                if body and not body.startswith("#"):
                    why = f"it follows a second {self._inside.option.key}, so it has no effect"
                    self._say("unsupported", body.partition("=")[0].strip(), why)
            elif self._inside is not None and self._inside.lines is not None:
                self._inside.lines.append(line)
            elif body and not body.startswith("#"):
                why = (
                    "it is before --consumer.config and --producer.config, so it belongs to no file"
                )
                self._say("unsupported", body.partition("=")[0].strip(), why)
        self._end_command()

    def sections(self) -> dict[str, Entries]:
        found = {}
        for name in _FILES:
            file = self._files.get(name)
            if file is None or file.lines is None:
                path = file.path if file is not None else ""
                why = (
                    f"the text does not contain {path}: add its lines below a line `# {path}`"
                    if path
                    else "it is missing, and the lines of its file below it"
                )
                self._notes.refuse(f"--{name}", why)
                continue
            found[name] = self._section(file.lines)
        return found

    def _section(self, lines: list[str]) -> Entries:
        read, faults = read_properties("\n".join(lines))
        for fault in faults:
            self._notes.say(Entry("", fault.number, "(line)"), "unsupported", fault.reason)
        last = {line.key: line for line in read}
        for line in read:
            if (number := last[line.key].number) != line.number:
                why = f"line {number} repeats the key, and the last one applies"
                self._notes.say(Entry("", line.number, line.key), "different", why)
        return {line.key: Entry(line.value, line.number, line.key) for line in last.values()}

    # --- the command ------------------------------------------------------------------------------

    def _is_command(self, body: str) -> bool:
        if body.startswith("--"):
            return True
        return not body.startswith("#") and any(name in body for name in _COMMANDS)

    def _read_options(self, body: str) -> None:
        try:
            words = shlex.split(body, comments=True)
        except ValueError:
            self._say("unsupported", "(line)", "a quotation mark is not closed")
            return
        begins = next((at for at, word in enumerate(words) if _is_name(word)), -1)
        for at, word in enumerate(words):
            if _is_of_shell(word):
                why = "it and what follows belong to the shell"
                self._say("different", word, why)
                break
            if at <= begins or word == "-daemon":
                self._say("different", word.partition("=")[0], "it starts MirrorMaker 1's process")
            elif self._open is not None and not word.startswith("--"):
                self._set(self._open, word)
            elif word.startswith("--"):
                self._end_option()
                name, equals, value = word[2:].partition("=")
                self._open = name
                if equals or name in _FLAGS:
                    self._set(name, value)
            else:
                self._say("unsupported", word, "it belongs to no option of MirrorMaker 1")

    def _set(self, name: str, value: str) -> None:
        self._open = None
        entry = Entry(value, self._number, f"--{name}")
        if name in _FILES:
            file = self._files.setdefault(name, _File(entry))
            if file.path:
                self._refuse_second(entry, file.option)
            else:
                file.path, file.option = value, entry
                self._notes.say(entry, "used", f"the lines of {value} belong to it")
        elif name in self.options:
            self._refuse_second(entry, self.options[name])
        else:
            self.options[name] = entry

    def _refuse_second(self, entry: Entry, first: Entry) -> None:
        why = f"line {first.number} has {entry.key} already, and MirrorMaker 1 accepts it once"
        self._notes.say(entry, "unsupported", why)

    def _end_option(self) -> None:
        """End an option that got no value."""
        if self._open is None:
            return
        entry = Entry("", self._number, f"--{self._open}")
        if self._open not in _FILES:
            self._notes.say(entry, "unsupported", f"{entry.key} needs a value")
        self._open = None

    def _end_command(self) -> None:
        """End the command; what follows a file's option without a path are the file's lines."""
        if self._open in _FILES:
            name = str(self._open)
            self._open = None
            self._begin(name)
        else:
            self._end_option()

    # --- the files --------------------------------------------------------------------------------

    def _begin(self, name: str) -> None:
        entry = Entry("", self._number, f"--{name}")
        file = self._files.setdefault(name, _File(entry))
        if file.lines is not None:
            self._refuse_second(entry, file.option)
            self._inside = _File(entry, is_second=True)
            return
        file.option = entry
        # Each line of the file keeps its number in the whole text.
        file.lines = [""] * self._number
        self._inside = file
        self._notes.say(entry, "used", "what follows is that file")

    def _named_in(self, body: str) -> str | None:
        """Return the file that a line names, as `# NAME`, `==> NAME <==` or `cat NAME`."""
        word = body.strip(" \t#=><$:[]").removeprefix("cat ").strip()
        for name, file in self._files.items():
            is_named = word in {file.path, file.path.rpartition("/")[2]}
            if word and file.path and is_named and file.lines is None:
                return name
        return None

    def _say(self, verdict: Judgment, key: str, why: str) -> None:
        self._notes.say(Entry("", self._number, key), verdict, why)


def _is_of_shell(word: str) -> bool:
    return word in {"&", "&&", "||", "|", ";"} or word.lstrip("012&").startswith((">", "<"))


def _is_name(word: str) -> bool:
    return any(name in word for name in _COMMANDS)
