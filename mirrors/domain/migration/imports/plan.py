"""Import plan of a MirrorMaker configuration: a verdict for every line, clusters and flows."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.flows.conflicts import check_flow
from mirrors.domain.migration.imports.clusters import ClusterReader
from mirrors.domain.migration.imports.drafts import FlowDraft, ParsedConfiguration
from mirrors.domain.migration.imports.flows import FlowReader
from mirrors.domain.migration.imports.formats.kafka_connect import read_connect
from mirrors.domain.migration.imports.formats.mirrormaker1 import read_mirrormaker1
from mirrors.domain.migration.imports.formats.mm2_properties import (
    judge_remaining,
    judge_unread,
    read_mm2,
)
from mirrors.domain.migration.imports.formats.strimzi import judge_resource, read_strimzi
from mirrors.domain.migration.imports.line_verdicts import (
    KeyVerdict,
    LineVerdict,
    VerdictCollector,
)
from mirrors.domain.migration.imports.mm2_precedence import Entry
from mirrors.domain.settings.table import KEYS, POLICY_CLASSES
from mirrors.domain.specs import ClusterSpec, FlowSpec

ImportKind = Literal["mm2-properties", "strimzi", "connect-json", "mirrormaker1"]
KINDS: tuple[ImportKind, ...] = get_args(ImportKind)
LONGEST_TEXT = 512 * 1024
_READERS: dict[ImportKind, Callable[[str, VerdictCollector], ParsedConfiguration]] = {
    "mm2-properties": read_mm2,
    "strimzi": read_strimzi,
    "connect-json": read_connect,
    "mirrormaker1": read_mirrormaker1,
}
_JUDGES: dict[ImportKind, Callable[[str, ParsedConfiguration, VerdictCollector], None]] = {
    "mm2-properties": judge_unread,
    "strimzi": judge_resource,
    "connect-json": lambda _, reading, notes: judge_remaining(reading, notes),
    "mirrormaker1": lambda _, reading, notes: judge_remaining(reading, notes),
}
FieldKey = tuple[str, str]
# Of Helm, Jinja and Ansible.
_PLACEHOLDER = re.compile(r"\{\{.*\}\}|\{%.*%\}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImportPlan:
    """What an import would create. `origins`: the line of each field of a cluster or flow.

    `unchanged`: names of flows that exist already with these settings; nothing happens to them.
    """

    lines: tuple[KeyVerdict, ...]
    clusters: tuple[ClusterSpec, ...] = ()
    flows: tuple[FlowSpec, ...] = ()
    warnings: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    origins: Mapping[FieldKey, Entry] = dataclasses.field(default_factory=dict)

    @property
    def refused(self) -> tuple[KeyVerdict, ...]:
        """Lines that stop the import: with one of them, nothing is created."""
        return tuple(line for line in self.lines if line.verdict == "unsupported")

    @property
    def ignored(self) -> int:
        """The number of lines that stop the import and that MirrorMaker 2 ignores."""
        return sum(line.ignored for line in self.lines)

    @property
    def new_flows(self) -> tuple[FlowSpec, ...]:
        return tuple(flow for flow in self.flows if flow.name not in self.unchanged)

    @property
    def digest(self) -> str:
        """Equal for equal effects, so that the previewed plan is the applied one."""
        facts = [
            [dataclasses.astuple(line) for line in self.lines],
            [dataclasses.asdict(cluster) for cluster in self.clusters],
            [[flow.name, flow.properties] for flow in self.flows],
            self.unchanged,
        ]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]

    def refuse(self, problems: Sequence[tuple[FieldKey, str]]) -> ImportPlan:
        """Return the plan with problems that only the database shows, each at its line."""
        return self._with_verdicts(problems, "unsupported")

    def keep(self, names: Sequence[str]) -> ImportPlan:
        """Return the plan with flows that exist already with the same settings."""
        sentences = [((name, ""), f"the flow {name} exists with these settings") for name in names]
        plan = dataclasses.replace(self, unchanged=tuple(names))
        return plan._with_verdicts(sentences, "used")

    def _with_verdicts(
        self, sentences: Sequence[tuple[FieldKey, str]], verdict: LineVerdict
    ) -> ImportPlan:
        notes = VerdictCollector()
        for (owner, field), sentence in sentences:
            entry = self.origins.get((owner, field), Entry("", None, f"{owner}.{field}"))
            notes.say(entry, verdict, sentence)
        found = {(line.number, line.key): line for line in notes.lines()}
        kept = [line for line in self.lines if (line.number, line.key) not in found]
        lines = sorted(
            [*kept, *found.values()], key=lambda line: (line.number is None, line.number or 0)
        )
        return dataclasses.replace(self, lines=tuple(lines))


def changed_settings(before: FlowSpec, after: FlowSpec) -> list[str]:
    """Return the names of settings that have another effect in `after`."""
    return [name for name, value in _effect(before).items() if value != _effect(after)[name]]


def _effect(spec: FlowSpec) -> dict[str, object]:
    settings = spec.settings
    found = {key.name: getattr(settings, key.field) for key in KEYS.values()}
    found["replication.policy.class"] = POLICY_CLASSES[settings.replication_policy_class]
    found["consumer"] = {**settings.consumer, "isolation.level": settings.isolation_level}
    found["producer"] = settings.producer
    return found


def plan_import(
    kind: ImportKind,
    text: str,
    *,
    existing: Sequence[FlowSpec] = (),
    ids: Mapping[str, str] | None = None,
    leave_out: bool = False,
) -> ImportPlan:
    """Return the plan of a text. An error becomes a verdict on its line and is never raised.

    `leave_out`: lines that MirrorMaker 2 ignores do not stop the import.
    """
    notes = VerdictCollector(leave_out=leave_out)
    text = text.removeprefix("\ufeff")
    if (why := _unreadable(text)) is not None:
        notes.refuse("text", why)
        return ImportPlan(lines=notes.lines())
    reading = _READERS[kind](text, notes)
    origins: dict[FieldKey, Entry] = {}
    clusters = _clusters(reading, origins, notes)
    flows = _flows(reading, clusters, origins, notes)
    if not flows and (why := _other_kind(kind, text)):
        notes = VerdictCollector()
        notes.refuse("text", why)
        return ImportPlan(lines=notes.lines())
    warnings = _conflicts(flows, existing, ids, origins, notes)
    _JUDGES[kind](text, reading, notes)
    return ImportPlan(
        lines=notes.lines(),
        clusters=tuple(clusters.values()),
        flows=tuple(flows),
        warnings=tuple(dict.fromkeys(warnings)),
        origins=origins,
    )


# What people have, by a line of it; the first one counts.
_KUBERNETES = "a resource of Kubernetes"
_LOOKS: tuple[tuple[str, str, ImportKind | str], ...] = (
    (r"\A\s*[\[{][\s\S]*Mirror\w+Connector", "the JSON of connectors", "connect-json"),
    (r"^kind:\s*KafkaMirrorMaker2\s*$", "a resource of Strimzi", "strimzi"),
    (r"^kind:\s*ConfigMap\s*$", _KUBERNETES, "import the file in its `data`, without indentation"),
    (r"^kind:\s*KafkaMirrorMaker\s*$", _KUBERNETES, "write its settings as the command and the two "
     "files of MirrorMaker 1, and import them with the kind mirrormaker1"),
    (r"^kind:\s*Connector\s*$", _KUBERNETES, "write its `configs` as JSON, and import it with the "
     "kind connect-json"),
    (r"^services:\s*$", "a file of Docker Compose", "import the file that its command names"),
    (r"^(?!\s*#).*(?:kafka-mirror-maker|kafka\.tools\.MirrorMaker)", "the command of MirrorMaker 1",
     "mirrormaker1"),
    (r"^\s*clusters\s*[=:]\s*\w", "a file of properties", "mm2-properties"),
)  # fmt: skip


def _other_kind(kind: ImportKind, text: str) -> str | None:
    """Return a sentence for a text without flows that is of another kind than the chosen one."""
    for pattern, what, instead in _LOOKS:
        if re.search(pattern, text, re.MULTILINE):
            if instead == kind:
                return None
            advice = f"import it with the kind {instead}" if instead in KINDS else instead
            return f"the text is {what}: {advice}"
    return None


def _unreadable(text: str) -> str | None:
    if not text.strip():
        return "the text is empty"
    if len(text) > LONGEST_TEXT:
        return f"the text has {len(text)} characters; the limit is {LONGEST_TEXT}"
    for number, line in enumerate(text.splitlines(), start=1):
        if _PLACEHOLDER.search(line) and not line.lstrip().startswith("#"):
            return (
                f"line {number} has a placeholder between {{{{ and }}}} or {{% and %}}: this is a "
                "template. Fill it in first, for example with `helm template` or Ansible, and "
                "import the result"
            )
    odd = next((c for c in text if c == "\x00" or "\ud800" <= c <= "\udfff"), None)
    if odd is not None:
        number = text[: text.index(odd)].count("\n") + 1
        return f"line {number} contains a character that is not allowed in text (U+{ord(odd):04X})"
    return None


def _clusters(
    reading: ParsedConfiguration, origins: dict[FieldKey, Entry], notes: VerdictCollector
) -> dict[str, ClusterSpec]:
    found = {}
    for alias, entries in reading.clusters.items():
        reader = ClusterReader(alias, entries, reading.providers, notes, reading.syntax)
        spec = reader.read()
        reading.flows = [flow.without(reader.shared) for flow in reading.flows]
        origins |= {(alias, field): entry for field, entry in reader.origins.items()}
        origins[alias, "alias"] = reading.named_by
        if spec is None:
            continue
        found[alias] = spec
        for field, sentences in spec.validate().items():
            entry = origins.get((alias, field), Entry("", None, f"{alias}.{field}"))
            # A missing field was reported once: at its rejected line.
            if entry.number is not None or not reader.has_refused:
                for sentence in sentences:
                    notes.say(entry, "unsupported", sentence)
    return found


def _flows(
    reading: ParsedConfiguration,
    clusters: Mapping[str, ClusterSpec],
    origins: dict[FieldKey, Entry],
    notes: VerdictCollector,
) -> list[FlowSpec]:
    found = []
    by_name: dict[str, FlowDraft] = {}
    for draft in reading.flows:
        first = by_name.setdefault(draft.name, draft)
        if first is not draft:
            for one, other in ((draft, first), (first, draft)):
                why = (
                    f"the flow {draft.name} is in line {other.wanted_by.number} too; a pair of "
                    "clusters has one flow. Join their patterns into one, or give one of them a "
                    "cluster with another alias"
                )
                notes.say(one.wanted_by, "unsupported", why)
        sides = {
            "source": reading.clusters.get(draft.source, {}),
            "target": reading.clusters.get(draft.target, {}),
        }
        reader = FlowReader(draft.name, draft.connector, draft.worker, sides, notes)
        properties = reader.read()
        origins |= {(draft.name, name): entry for name, entry in reader.origins.items()}
        origins[draft.name, ""] = draft.wanted_by
        spec = _spec(draft, clusters, properties, origins, notes)
        if spec is not None:
            found.append(spec)
    return found


def _spec(
    draft: FlowDraft,
    clusters: Mapping[str, ClusterSpec],
    properties: Mapping[str, str],
    origins: Mapping[FieldKey, Entry],
    notes: VerdictCollector,
) -> FlowSpec | None:
    if draft.source not in clusters or draft.target not in clusters:
        return None
    try:
        return FlowSpec.build(
            source=clusters[draft.source], target=clusters[draft.target], properties=properties
        )
    except InvalidSettings as error:
        _say_all(draft.name, error, origins, notes)
        return None


def _conflicts(
    flows: Sequence[FlowSpec],
    existing: Sequence[FlowSpec],
    ids: Mapping[str, str] | None,
    origins: Mapping[FieldKey, Entry],
    notes: VerdictCollector,
) -> list[str]:
    """Find cycles and collisions of the new flows with each other and with existing ones."""
    warnings: list[str] = []
    for spec in flows:
        try:
            warnings += check_flow(spec, [*existing, *flows], ids)
        except InvalidSettings as error:
            _say_all(spec.name, error, origins, notes)
    return warnings


def _say_all(
    name: str, error: InvalidSettings, origins: Mapping[FieldKey, Entry], notes: VerdictCollector
) -> None:
    for field, sentences in error.fields.items():
        entry = origins.get((name, field), Entry(""))
        if entry.number is None:
            entry = origins[name, ""]
        for sentence in sentences:
            notes.say(entry, "unsupported", sentence)
