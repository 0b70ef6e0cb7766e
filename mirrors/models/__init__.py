"""Django models of clusters, flows, runners and runs, and the audit log."""

from mirrors.models.account import FlowAccount
from mirrors.models.clusters import Cluster, ClusterTest
from mirrors.models.comparison import Comparison, ComparisonFinding, ComparisonPart
from mirrors.models.drift import AclPreview, CarriedAcl, Drift, TopicBaseline
from mirrors.models.drills import Certificate, Drill, DrillRun, FlowObjectives, SigningKey
from mirrors.models.failback import Divergence, Failback, OrphanChunk, OrphanStretch
from mirrors.models.failover import FailoverRun, FailoverStep, LeftBehind
from mirrors.models.flows import Flow, FlowPartition, FlowTopic, Job, SettingChange
from mirrors.models.gaps import Gap
from mirrors.models.groups import GroupBookmark, GroupOffset, KnownCheckpoint, SyncedPartition
from mirrors.models.offsets import OffsetBounds, PartitionMap, RunBlock, RunIndex
from mirrors.models.roles import Role, needs, role_of
from mirrors.models.runners import Runner, RunnerLog, Sighting
from mirrors.models.sync import DutyRun, FlowPlan, HeartbeatState, StandbyNote
from mirrors.models.transitions import Transition, claim

__all__ = [
    "AclPreview",
    "CarriedAcl",
    "Certificate",
    "Cluster",
    "ClusterTest",
    "Comparison",
    "ComparisonFinding",
    "ComparisonPart",
    "Divergence",
    "Drift",
    "Drill",
    "DrillRun",
    "DutyRun",
    "Failback",
    "FailoverRun",
    "FailoverStep",
    "Flow",
    "FlowAccount",
    "FlowObjectives",
    "FlowPartition",
    "FlowPlan",
    "FlowTopic",
    "Gap",
    "GroupBookmark",
    "GroupOffset",
    "HeartbeatState",
    "Job",
    "KnownCheckpoint",
    "LeftBehind",
    "OffsetBounds",
    "OrphanChunk",
    "OrphanStretch",
    "PartitionMap",
    "Role",
    "RunBlock",
    "RunIndex",
    "Runner",
    "RunnerLog",
    "SettingChange",
    "Sighting",
    "SigningKey",
    "StandbyNote",
    "SyncedPartition",
    "TopicBaseline",
    "Transition",
    "claim",
    "needs",
    "role_of",
]
