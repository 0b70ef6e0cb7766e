"""The error table: what each error number means to the engine and to a person.

A number has one row. The engine's sets come from the categories of the rows; our exception, its
code and its sentence come from the same row. `docs/development/kafka.md` says how to add one.
"""

from __future__ import annotations

import dataclasses
import enum

import kafka.errors

from mirrors.domain.errors import Fenced, KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.kafka.error_codes import ClientCode, Code, name_of
from mirrors.kafka.quotas import timeout_error


class Category(enum.Flag):
    """What a caller does after the error. A number may have several."""

    NONE = 0
    RETRIABLE = enum.auto()
    """Wait or look up the leader, then send the same bytes with the same sequence."""
    LEADER_MOVED = enum.auto()
    """Another broker may lead the partition."""
    COORDINATOR_MOVING = enum.auto()
    """Find the coordinator again. The request had no effect."""
    TOPIC_MISSING = enum.auto()
    """The topic or partition does not exist, at least not with this topic id."""
    SESSION_LOST = enum.auto()
    """Of a whole fetch: the broker dropped the session. Begin another one."""
    BATCH_REJECTED = enum.auto()
    """The broker rejects this batch. Others in the request are not affected."""
    PRODUCER_LOST = enum.auto()
    """The broker lost the producer's state, or it is in doubt: init, read the positions again."""
    FENCING = enum.auto()
    """Another owner of the transactional id exists: write nothing more."""


_LEADER = Category.RETRIABLE | Category.LEADER_MOVED
_COORDINATOR = Category.RETRIABLE | Category.COORDINATOR_MOVING
_TOPIC = _LEADER | Category.TOPIC_MISSING


@dataclasses.dataclass(frozen=True)
class Row:
    """One error number. `sentence` has cause and cure, without a full stop.

    - `kind` and `code` are published: in status files, over REST, in stored runs.
    - `quote`: Kafka's own words follow, because they name the rejected value.
    """

    number: int
    kind: type[UnderstudyError]
    code: str
    sentence: str
    category: Category = Category.NONE
    quote: bool = False


# The code of errors without a code of their own. Kafka's words follow.
_OTHER = "kafka"
_MOVING = "the leader or coordinator is moving; it works again shortly"
_DOWN = (
    "no broker can be reached. Check that the brokers are running and that the addresses they "
    "advertise can be reached from here"
)
_SLOW = "no response in time. The brokers may be overloaded or unreachable"
_LOGIN = "the broker rejected the login. Check the mechanism, the user name and the secret"
_MISSING = "the topic or partition does not exist"
_FEW_REPLICAS = "fewer replicas are in sync than min.insync.replicas requires"
_GROUP = "the consumer group has active members"
_BUSY = "the Kafka client is busy or reconnects; it works again shortly"
_RECORD = "the broker considers a record invalid"
_SESSION = "the broker dropped the fetch session; the next fetch begins another one"


def _denied(what: str, operations: str) -> str:
    return f"not authorized on the {what}. Grant {operations} to the principal that connects"


def _refused(
    number: int, code: str, sentence: str, category: Category = Category.NONE, quote: bool = False
) -> Row:
    return Row(number, KafkaRefused, code, sentence, category, quote or code == _OTHER)


def _unavailable(number: int, code: str, sentence: str, category: Category = Category.NONE) -> Row:
    return Row(number, KafkaUnavailable, code, sentence, category, code == _OTHER)


def _lost(number: int) -> Row:
    sentence = "the broker no longer knows what this producer wrote; it needs a new producer epoch"
    return Row(number, KafkaUnavailable, _OTHER, sentence, Category.PRODUCER_LOST, quote=True)


def _fenced(number: int) -> Row:
    sentence = "another owner of the flow's transactional id took over"
    return Row(number, Fenced, "fenced", sentence, Category.FENCING)


_PROTOCOL = (
    _unavailable(
        Code.UNKNOWN_SERVER_ERROR,
        _OTHER,
        "the broker had an internal error. See its log",
        Category.PRODUCER_LOST,
    ),
    _refused(
        Code.OFFSET_OUT_OF_RANGE,
        "out_of_range",
        "the offset is no longer, or not yet, on the broker",
    ),
    _refused(
        Code.CORRUPT_MESSAGE,
        _OTHER,
        "a batch is damaged. Compare the replicas of the partition",
        Category.BATCH_REJECTED,
    ),
    _refused(Code.UNKNOWN_TOPIC_OR_PARTITION, "not_found", _MISSING, _TOPIC),
    _unavailable(Code.LEADER_NOT_AVAILABLE, "moving", _MOVING, _LEADER),
    _unavailable(Code.NOT_LEADER_OR_FOLLOWER, "moving", _MOVING, _LEADER),
    _unavailable(Code.REQUEST_TIMED_OUT, "timeout", _SLOW, Category.RETRIABLE),
    _unavailable(
        Code.BROKER_NOT_AVAILABLE, "unreachable", "the broker is not available", Category.RETRIABLE
    ),
    _unavailable(Code.REPLICA_NOT_AVAILABLE, "moving", _MOVING, _LEADER),
    _refused(
        Code.MESSAGE_TOO_LARGE,
        "too_large",
        "a record is larger than the topic allows. Raise max.message.bytes of the topic",
        Category.BATCH_REJECTED,
    ),
    _refused(
        Code.OFFSET_METADATA_TOO_LARGE,
        "metadata_too_large",
        "the offset metadata is larger than allowed",
    ),
    _unavailable(
        Code.NETWORK_EXCEPTION,
        _OTHER,
        "the broker closed the connection before its response",
        Category.RETRIABLE,
    ),
    _unavailable(Code.COORDINATOR_LOAD_IN_PROGRESS, "moving", _MOVING, _COORDINATOR),
    _unavailable(Code.COORDINATOR_NOT_AVAILABLE, "moving", _MOVING, _COORDINATOR),
    _unavailable(Code.NOT_COORDINATOR, "moving", _MOVING, _COORDINATOR),
    _refused(
        Code.INVALID_TOPIC_EXCEPTION,
        "invalid_topic",
        "the topic name is not allowed by Kafka",
        quote=True,
    ),
    _refused(
        Code.RECORD_LIST_TOO_LARGE,
        _OTHER,
        "a batch is larger than a segment of the topic. Raise segment.bytes of the topic",
        Category.BATCH_REJECTED,
    ),
    _unavailable(Code.NOT_ENOUGH_REPLICAS, "few_replicas", _FEW_REPLICAS, Category.RETRIABLE),
    _unavailable(
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "few_replicas", _FEW_REPLICAS, Category.RETRIABLE
    ),
    _refused(Code.UNKNOWN_MEMBER_ID, "group_active", _GROUP),
    _refused(
        Code.TOPIC_AUTHORIZATION_FAILED,
        "not_authorised",
        _denied("topic", "the operation that is missing"),
    ),
    _refused(
        Code.GROUP_AUTHORIZATION_FAILED,
        "not_authorised",
        _denied("consumer group", "Read and Describe"),
    ),
    _refused(
        Code.CLUSTER_AUTHORIZATION_FAILED,
        "not_authorised",
        _denied(
            "cluster",
            "what is missing (Describe to list groups, Create for topics, Write on a topic to "
            "write)",
        ),
    ),
    _refused(
        Code.INVALID_TIMESTAMP,
        "timestamp",
        "the timestamp is outside what the topic allows (message.timestamp.after.max.ms)",
        Category.BATCH_REJECTED,
    ),
    _refused(
        Code.UNSUPPORTED_SASL_MECHANISM,
        "mechanism",
        "the broker does not offer this SASL mechanism. Choose one that it offers",
    ),
    _refused(
        Code.ILLEGAL_SASL_STATE,
        "protocol",
        "the listener does not accept a SASL login. Check the security protocol and the port",
    ),
    _refused(Code.UNSUPPORTED_VERSION, "version", "the broker is too old for this request"),
    _refused(Code.TOPIC_ALREADY_EXISTS, "exists", "the topic already exists"),
    _refused(
        Code.INVALID_PARTITIONS, "partitions", "the number of partitions is invalid", quote=True
    ),
    _refused(
        Code.INVALID_REPLICATION_FACTOR,
        "replication",
        "the replication factor is higher than the number of brokers",
        quote=True,
    ),
    _refused(Code.INVALID_CONFIG, "config", "Kafka rejects one of the configs", quote=True),
    _unavailable(Code.NOT_CONTROLLER, "moving", _MOVING),
    _refused(Code.POLICY_VIOLATION, "policy", "a policy of the cluster forbids it", quote=True),
    _lost(Code.OUT_OF_ORDER_SEQUENCE_NUMBER),
    _lost(Code.DUPLICATE_SEQUENCE_NUMBER),
    _fenced(Code.INVALID_PRODUCER_EPOCH),
    _lost(Code.INVALID_TXN_STATE),
    _lost(Code.INVALID_PRODUCER_ID_MAPPING),
    _unavailable(
        Code.CONCURRENT_TRANSACTIONS,
        "busy",
        "a transaction of the same owner is still being completed; if that lasts, a partition that "
        "it wrote has fewer replicas in sync than its min.insync.replicas",
        Category.RETRIABLE,
    ),
    _lost(Code.TRANSACTION_COORDINATOR_FENCED),
    _refused(
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "not_authorised",
        _denied("transactional id", "Write and Describe"),
    ),
    _refused(
        Code.SECURITY_DISABLED,
        "security_off",
        "the cluster has no authorizer, so it stores no ACLs",
    ),
    _refused(
        Code.OPERATION_NOT_ATTEMPTED,
        _OTHER,
        "the broker did not try it, because it rejected another part of the request",
    ),
    _unavailable(
        Code.KAFKA_STORAGE_ERROR, _OTHER, "the disk of the broker failed. See its log", _LEADER
    ),
    _refused(Code.SASL_AUTHENTICATION_FAILED, "authentication", _LOGIN),
    _lost(Code.UNKNOWN_PRODUCER_ID),
    _unavailable(Code.REASSIGNMENT_IN_PROGRESS, "moving", "the partitions are being reassigned"),
    _refused(Code.NON_EMPTY_GROUP, "group_active", "the consumer group still has members"),
    _refused(Code.GROUP_ID_NOT_FOUND, "not_found", "there is no such consumer group"),
    _unavailable(Code.FETCH_SESSION_ID_NOT_FOUND, _OTHER, _SESSION, Category.SESSION_LOST),
    _unavailable(Code.INVALID_FETCH_SESSION_EPOCH, _OTHER, _SESSION, Category.SESSION_LOST),
    _refused(
        Code.TOPIC_DELETION_DISABLED,
        "deletion_off",
        "deletion of topics is switched off on the cluster",
    ),
    # What we know of the leader is from before an election.
    _unavailable(Code.FENCED_LEADER_EPOCH, "moving", _MOVING, _LEADER),
    # The broker does not know of the election yet.
    _unavailable(Code.UNKNOWN_LEADER_EPOCH, "moving", _MOVING, _LEADER),
    _unavailable(
        Code.OFFSET_NOT_AVAILABLE,
        _OTHER,
        "the new leader does not know the high watermark yet; it works again shortly",
        Category.RETRIABLE,
    ),
    _refused(Code.INVALID_RECORD, _OTHER, _RECORD, Category.BATCH_REJECTED),
    _unavailable(
        Code.UNSTABLE_OFFSET_COMMIT, "busy", "a transaction holds the offsets of the group"
    ),
    _unavailable(
        Code.THROTTLING_QUOTA_EXCEEDED,
        "throttled",
        "the cluster's quota for such changes is exhausted",
    ),
    _fenced(Code.PRODUCER_FENCED),
    _refused(Code.UNKNOWN_TOPIC_ID, "not_found", _MISSING, _TOPIC),
    _unavailable(
        Code.INCONSISTENT_TOPIC_ID, _OTHER, "the topic was deleted and created again", _TOPIC
    ),
    _unavailable(
        Code.FETCH_SESSION_TOPIC_ID_ERROR, _OTHER, _SESSION, _LEADER | Category.SESSION_LOST
    ),
    _lost(Code.TRANSACTION_ABORTABLE),
)

_CLIENT_ROWS = (
    _unavailable(ClientCode.ALL_BROKERS_DOWN, "unreachable", _DOWN),
    _unavailable(ClientCode.TRANSPORT, "unreachable", _DOWN),
    _unavailable(
        ClientCode.RESOLVE,
        "dns",
        "the host name cannot be resolved. Check its spelling and the DNS",
    ),
    _unavailable(
        ClientCode.SSL,
        "tls",
        "the TLS handshake failed. A connection test of the cluster shows why",
    ),
    _refused(ClientCode.AUTHENTICATION, "authentication", _LOGIN),
    _unavailable(ClientCode.TIMED_OUT, "timeout", _SLOW),
    _unavailable(ClientCode.TIMED_OUT_QUEUE, "timeout", _SLOW),
    _unavailable(ClientCode.MSG_TIMED_OUT, "timeout", _SLOW),
    _fenced(ClientCode.FENCED),
    # "No leaders found": the client's metadata has none of the requested partitions.
    _unavailable(ClientCode.NOENT, "moving", _MOVING),
    _refused(ClientCode.UNKNOWN_TOPIC, "not_found", _MISSING, Category.TOPIC_MISSING),
    _refused(ClientCode.UNKNOWN_PARTITION, "not_found", _MISSING, Category.TOPIC_MISSING),
    _unavailable(ClientCode.DESTROY_BROKER, _OTHER, _BUSY),
    _unavailable(ClientCode.FAIL, _OTHER, _BUSY),
    _unavailable(ClientCode.INTR, _OTHER, _BUSY),
    _unavailable(ClientCode.IN_PROGRESS, _OTHER, _BUSY),
    _unavailable(ClientCode.ISR_INSUFF, _OTHER, _FEW_REPLICAS),
    _unavailable(ClientCode.OUTDATED, _OTHER, _BUSY),
    _unavailable(ClientCode.PREV_IN_PROGRESS, _OTHER, _BUSY),
    _unavailable(ClientCode.QUEUE_FULL, _OTHER, _BUSY),
    _unavailable(ClientCode.RETRY, _OTHER, _BUSY),
    _unavailable(ClientCode.UNKNOWN_BROKER, _OTHER, _BUSY),
    _unavailable(ClientCode.WAIT_CACHE, _OTHER, _BUSY),
    _unavailable(ClientCode.WAIT_COORD, _OTHER, _BUSY),
)

ROWS: dict[int, Row] = {int(row.number): row for row in (*_PROTOCOL, *_CLIENT_ROWS)}


def _numbers(category: Category) -> frozenset[int]:
    """Plain integers: the engine looks up the error code of every batch's response."""
    return frozenset(number for number, row in ROWS.items() if category in row.category)


RETRIABLE = _numbers(Category.RETRIABLE)
LEADER_MOVED = _numbers(Category.LEADER_MOVED)
COORDINATOR_MOVING = _numbers(Category.COORDINATOR_MOVING)
TOPIC_MISSING = _numbers(Category.TOPIC_MISSING)
SESSION_LOST = _numbers(Category.SESSION_LOST)
BATCH_REJECTED = _numbers(Category.BATCH_REJECTED)
PRODUCER_LOST = _numbers(Category.PRODUCER_LOST)
FENCING = _numbers(Category.FENCING)


def is_temporary(number: int) -> bool:
    """Whether a retry of the whole task may help. Without a row, the protocol decides."""
    row = ROWS.get(number)
    if row is not None:
        return row.kind is KafkaUnavailable
    return bool(kafka.errors.for_code(number).retriable)


def error_of_number(
    number: int, *, where: str, doing: str, message: str = "", temporary: bool | None = None
) -> UnderstudyError:
    """Our error for a number. `doing` is an infinitive ("list topics"), `where` an alias.

    - `message` is Kafka's own text, without a full stop.
    - `temporary`: whether a retry may help, if the caller knows more than the number says. It
      counts for numbers without a row.
    """
    row = ROWS.get(number)
    if row is None:
        temporary = is_temporary(number) if temporary is None else temporary
        kind = KafkaUnavailable if temporary else KafkaRefused
        row = Row(number, kind, _OTHER, f"Kafka answered {message or name_of(number)}")
    quoted = f" ({message})" if row.quote and message else ""
    sentence = f"Cluster {where}: cannot {doing}: {row.sentence}{quoted}."
    if row.code == "timeout":
        return timeout_error(where, sentence)
    return row.kind(sentence, code=row.code)
