"""The rows of mirrors: what people asked for, what was seen, and who changed what."""

from mirrors.models.clusters import Cluster, ClusterTest
from mirrors.models.duties import DutyRun, FlowPlan, HeartbeatState
from mirrors.models.failovers import FailoverRun, FailoverStep
from mirrors.models.flows import Flow, FlowPartition, FlowTopic, Job
from mirrors.models.gaps import Gap
from mirrors.models.groups import GroupBookmark, GroupOffset, KnownCheckpoint, SyncedPartition
from mirrors.models.offsets import PartitionMap, RunBlock, RunIndex
from mirrors.models.roles import Role, needs, role_of
from mirrors.models.runners import Runner, Sighting
from mirrors.models.transitions import Transition, claim

__all__ = [
    "Cluster",
    "ClusterTest",
    "DutyRun",
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
    "PartitionMap",
    "Role",
    "RunBlock",
    "RunIndex",
    "Runner",
    "Sighting",
    "SyncedPartition",
    "Transition",
    "claim",
    "needs",
    "role_of",
]
