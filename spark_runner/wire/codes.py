"""What the copy engine makes of Kafka's error numbers: which batch, leader or session they mean."""

from __future__ import annotations

from mirrors.kafka.codes import Code

# The batch itself is not taken as it is; its neighbours in the request are not touched by that.
BATCH_REFUSED = frozenset(
    {
        Code.CORRUPT_MESSAGE,
        Code.MESSAGE_TOO_LARGE,
        Code.RECORD_LIST_TOO_LARGE,
        Code.INVALID_TIMESTAMP,
        Code.INVALID_RECORD,
    }
)

# Wait or look for the leader again, then send the same bytes with the same sequence.
RETRY = frozenset(
    {
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.REQUEST_TIMED_OUT,
        Code.BROKER_NOT_AVAILABLE,
        Code.REPLICA_NOT_AVAILABLE,
        Code.NETWORK_EXCEPTION,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.CONCURRENT_TRANSACTIONS,
        Code.KAFKA_STORAGE_ERROR,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.OFFSET_NOT_AVAILABLE,
        Code.UNKNOWN_TOPIC_ID,
        Code.INCONSISTENT_TOPIC_ID,
        Code.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)

# Of a whole fetch: the broker dropped the session, or counts otherwise. Begin another one.
SESSION_LOST = frozenset(
    {
        Code.FETCH_SESSION_ID_NOT_FOUND,
        Code.INVALID_FETCH_SESSION_EPOCH,
        Code.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)

# Of the retriable ones, those after which another broker may lead the partition.
LEADER_MOVED = frozenset(
    {
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.REPLICA_NOT_AVAILABLE,
        Code.KAFKA_STORAGE_ERROR,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.UNKNOWN_TOPIC_ID,
        Code.INCONSISTENT_TOPIC_ID,
        Code.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
