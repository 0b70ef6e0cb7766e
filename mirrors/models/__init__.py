"""The rows of mirrors: what people asked for, what was seen, and who changed what."""

from mirrors.models.clusters import Cluster, ClusterTest
from mirrors.models.duties import DutyRun, FlowPlan, HeartbeatState
from mirrors.models.failbacks import Divergence, Failback, OrphanChunk, OrphanStretch
from mirrors.models.failovers import FailoverRun, FailoverStep
from mirrors.models.flows import Flow, FlowPartition, FlowTopic, Job
from mirrors.models.gaps import Gap
from mirrors.models.groups import GroupBookmark, GroupOffset, KnownCheckpoint, SyncedPartition
from mirrors.models.keeping import StandbyNote
from mirrors.models.offsets import PartitionMap, RunBlock, RunIndex
from mirrors.models.roles import Role, needs, role_of
from mirrors.models.runners import Runner, Sighting
from mirrors.models.transitions import Transition, claim

__all__ = [
    "Cluster",
    "ClusterTest",
    "Divergence",
    "DutyRun",
    "Failback",
    "FailoverRun",
    "FailoverStep",
    "Flow",
    "FlowPartition",
    "FlowPlan",
    "FlowTopic",
    "Gap",
    "GroupBookmark",
    "GroupOffset",
    "HeartbeatState",
    "Job",
    "KnownCheckpoint",
    "OrphanChunk",
    "OrphanStretch",
    "PartitionMap",
    "Role",
    "RunBlock",
    "RunIndex",
    "Runner",
    "Sighting",
    "StandbyNote",
    "SyncedPartition",
    "Transition",
    "claim",
    "needs",
    "role_of",
]
