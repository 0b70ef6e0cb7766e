"""Django models of clusters, flows, runners and runs, and the audit log."""

from mirrors.models.access.grants import (
    AccessGrant,
    FlowLabel,
    SignInGroup,
    demand,
    has_right,
    needs,
)
from mirrors.models.access.roles import (
    ExtraRole,
    OidcAccount,
    OneTimeCode,
    PersonSettings,
    RecoveryCode,
    Role,
    Scope,
    TokenFacts,
    role_in,
    role_of,
)
from mirrors.models.account import FlowAccount
from mirrors.models.audit.chain import AuditAnchor, AuditHead
from mirrors.models.audit.transitions import Transition, claim
from mirrors.models.clusters import Cluster, ClusterTest, TopicPreview
from mirrors.models.comparison import (
    Comparison,
    ComparisonFinding,
    ComparisonPart,
    ConflictKey,
    ConflictReport,
)
from mirrors.models.drift import (
    AclPreview,
    AppliedDocument,
    CarriedAcl,
    Drift,
    RulePreview,
    TopicBaseline,
    TopicConfigs,
)
from mirrors.models.drills.runs import Certificate, Drill, DrillRun, FlowObjectives, SigningKey
from mirrors.models.failback import Divergence, Failback, OrphanChunk, OrphanStretch
from mirrors.models.failover import FailoverRun, FailoverStep, Hook, LeftBehind
from mirrors.models.flows import (
    Flow,
    FlowMove,
    FlowPartition,
    FlowTopic,
    Job,
    RuleWaiver,
    SettingChange,
)
from mirrors.models.gaps import Gap
from mirrors.models.groups.offsets import (
    GroupBookmark,
    GroupOffset,
    KnownCheckpoint,
    SyncedPartition,
)
from mirrors.models.groups.summaries import GroupSummary
from mirrors.models.offsets import (
    OffsetBounds,
    PartitionMap,
    PositionChange,
    RuleStart,
    RunBlock,
    RunIndex,
)
from mirrors.models.runners import Host, Runner, RunnerLog, Sighting
from mirrors.models.schemas import SchemaId, SchemaSubject, SchemaSync
from mirrors.models.sync import DutyRun, FlowPlan, HeartbeatState, StandbyNote

__all__ = [
    "AccessGrant",
    "AclPreview",
    "AppliedDocument",
    "AuditAnchor",
    "AuditHead",
    "CarriedAcl",
    "Certificate",
    "Cluster",
    "ClusterTest",
    "Comparison",
    "ComparisonFinding",
    "ComparisonPart",
    "ConflictKey",
    "ConflictReport",
    "Divergence",
    "Drift",
    "Drill",
    "DrillRun",
    "DutyRun",
    "ExtraRole",
    "Failback",
    "FailoverRun",
    "FailoverStep",
    "Flow",
    "FlowAccount",
    "FlowLabel",
    "FlowMove",
    "FlowObjectives",
    "FlowPartition",
    "FlowPlan",
    "FlowTopic",
    "Gap",
    "GroupBookmark",
    "GroupOffset",
    "GroupSummary",
    "HeartbeatState",
    "Hook",
    "Host",
    "Job",
    "KnownCheckpoint",
    "LeftBehind",
    "OffsetBounds",
    "OidcAccount",
    "OneTimeCode",
    "OrphanChunk",
    "OrphanStretch",
    "PartitionMap",
    "PersonSettings",
    "PositionChange",
    "RecoveryCode",
    "Role",
    "RulePreview",
    "RuleStart",
    "RuleWaiver",
    "RunBlock",
    "RunIndex",
    "Runner",
    "RunnerLog",
    "SchemaId",
    "SchemaSubject",
    "SchemaSync",
    "Scope",
    "SettingChange",
    "Sighting",
    "SignInGroup",
    "SigningKey",
    "StandbyNote",
    "SyncedPartition",
    "TokenFacts",
    "TopicBaseline",
    "TopicConfigs",
    "TopicPreview",
    "Transition",
    "claim",
    "demand",
    "has_right",
    "needs",
    "role_in",
    "role_of",
]
