"""The settings of heartbeats, topic configs, ACLs and schemas; `table` contains them."""

from __future__ import annotations

from mirrors.domain.schemas.subjects import SUBJECT, SubjectFormat
from mirrors.domain.settings.value_types import Boolean, Integer, OneOf, Patterns, Setting

SCHEMAS = "sync.schemas.enabled"
SCHEMAS_INTERVAL = "sync.schemas.interval.seconds"
_SECONDS = Integer(1, 86400)

SYNC_KEYS = (
    Setting(
        name="emit.heartbeats.enabled",
        verdict="different",
        kind=Boolean(),
        default="true",
        mm2="true",
        meaning="Whether heartbeats are written.",
        why="Written on the source with the flow's own key and replicated by the "
        "flow, so that one on the target verifies the whole path; MM2 writes "
        "them on the target.",
    ),
    Setting(
        name="emit.heartbeats.interval.seconds",
        verdict="different",
        kind=_SECONDS,
        default="5",
        mm2="1",
        meaning="How often heartbeats are written.",
        why="Each replicated heartbeat makes an idle flow commit. An interval of 5 s needs a "
        "fifth of the commits of 1 s, and still reports a broken path in time.",
    ),
    Setting(
        name="heartbeats.topic.replication.factor",
        verdict="different",
        kind=Integer(-1, 32767, but=0),
        default="3",
        mm2="3",
        meaning="Replication factor of the heartbeats topic; -1 for the cluster's default.",
        why="Lowered where the cluster has fewer brokers; MM2 would fail to create the topic.",
    ),
    Setting(
        name="sync.topic.configs.enabled",
        verdict="honoured",
        kind=Boolean(),
        default="true",
        mm2="true",
        meaning="Whether later changes of topic configs are synchronized (new topics have them).",
    ),
    Setting(
        name="sync.topic.configs.interval.seconds",
        verdict="different",
        kind=_SECONDS,
        default="60",
        mm2="600",
        meaning="How often topic configs are synchronized.",
        why="A retention that was raised before an incident must not wait ten "
        "minutes; only differences are written, so a check is cheap.",
    ),
    Setting(
        name="sync.topic.acls.enabled",
        verdict="different",
        kind=Boolean(),
        default="false",
        mm2="true",
        meaning="Whether the ACLs of replicated topics are synchronized.",
        why="Off by default, and when on it waits until somebody has reviewed the "
        "plan: ACLs grant permissions to people. ACLs of the literal topic * "
        "are not synchronized, since they would cover more.",
    ),
    Setting(
        name="sync.topic.acls.interval.seconds",
        verdict="honoured",
        kind=_SECONDS,
        default="600",
        mm2="600",
        meaning="How often topic ACLs are synchronized.",
    ),
    Setting(
        name="sync.acls.scope",
        verdict="ours",
        kind=OneOf(("topics", "complete")),
        default="topics",
        meaning="Which ACLs are synchronized: those of literal topics as in MM2, or "
        "also those of name prefixes and consumer groups; then ACLs that the "
        "flow created are deleted after their source.",
    ),
    Setting(
        name="drift.grace.seconds",
        verdict="ours",
        kind=Integer(0, 2_592_000),
        default="3600",
        meaning="How long a manual change on the target waits for a decision before it "
        "is reverted; 0 reverts it at the next run, as MM2 does.",
    ),
    Setting(
        name=SCHEMAS,
        verdict="ours",
        kind=Boolean(),
        default="false",
        meaning="Whether schemas are synchronized between the schema registries of both clusters.",
    ),
    Setting(
        name=SCHEMAS_INTERVAL,
        verdict="ours",
        kind=_SECONDS,
        default="60",
        meaning="How often schemas are synchronized.",
    ),
    Setting(
        name="sync.schemas.subjects",
        verdict="ours",
        kind=Patterns(),
        default=".*",
        meaning="Which subjects are synchronized, with the schemas that they refer to.",
    ),
    Setting(
        name="sync.schemas.subjects.exclude",
        verdict="ours",
        kind=Patterns(),
        default="",
        meaning="Which subjects are excluded although `sync.schemas.subjects` matches them.",
    ),
    Setting(
        name="sync.schemas.subject.format",
        verdict="ours",
        kind=SubjectFormat(),
        default=SUBJECT,
        meaning="The name of a subject on the target, such as `east-${subject}`, or "
        "`:.east:${subject}` for a context of Confluent's registry.",
    ),
    Setting(
        name="sync.schemas.ids",
        verdict="ours",
        kind=OneOf(("auto", "keep", "map")),
        default="auto",
        meaning="Whether schemas keep their ids: auto keeps them where the target's registry has "
        "an import mode and maps them elsewhere; keep refuses to map.",
    ),
    Setting(
        name="sync.schemas.missing",
        verdict="ours",
        kind=OneOf(("wait", "fail")),
        default="wait",
        meaning="What happens to a record for which `target_schema` finds no schema on the target: "
        "its partition waits for the schema, or the rule fails for it as `on_error` says.",
    ),
)
