"""KafkaError (of either client) to our errors: the one place that words them."""

from __future__ import annotations

import dataclasses

import kafka.errors
from confluent_kafka import KafkaError, KafkaException

from mirrors.domain.errors import Fenced, KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.kafka.quotas import timeout_error


@dataclasses.dataclass(frozen=True)
class Rule:
    """What an error number means to a person: which of our errors, its code, cause and cure.

    `quote`: Kafka's own words follow, because they name the value that it refused.
    """

    kind: type[UnderstudyError]
    code: str
    words: str
    quote: bool = False


def _rights(what: str, operations: str) -> Rule:
    return Rule(
        KafkaRefused,
        "not_authorised",
        f"not authorized on the {what}. Grant {operations} to the principal that connects",
    )


_FENCED = Rule(Fenced, "fenced", "another owner of the same transactional id took over")
_DOWN = Rule(
    KafkaUnavailable,
    "unreachable",
    "no broker can be reached. Check that the brokers are running and that the addresses they "
    "advertise can be reached from here",
)
_SLOW = Rule(
    KafkaUnavailable, "timeout", "no response in time. The brokers may be overloaded or unreachable"
)
_LOGIN = Rule(
    KafkaRefused,
    "authentication",
    "the broker rejected the login. Check the mechanism, the user name and the secret",
)
_GONE = Rule(KafkaRefused, "not_found", "the topic or partition does not exist")
_MOVING = Rule(
    KafkaUnavailable, "moving", "the leader or coordinator is moving; it works again shortly"
)

# Numbers are Kafka's protocol errors; negative ones are librdkafka's own.
RULES: dict[int, Rule] = {
    KafkaError._ALL_BROKERS_DOWN: _DOWN,
    KafkaError._TRANSPORT: _DOWN,
    KafkaError._RESOLVE: Rule(
        KafkaUnavailable, "dns", "the host name cannot be resolved. Check its spelling and the DNS"
    ),
    KafkaError._SSL: Rule(
        KafkaUnavailable,
        "tls",
        "the TLS handshake failed. A connection test of the cluster shows why",
    ),
    KafkaError._AUTHENTICATION: _LOGIN,
    KafkaError._TIMED_OUT: _SLOW,
    KafkaError._TIMED_OUT_QUEUE: _SLOW,
    KafkaError._MSG_TIMED_OUT: _SLOW,
    KafkaError._FENCED: _FENCED,
    # "No leaders found": the client's picture holds none of the partitions that were asked for.
    KafkaError._NOENT: _MOVING,
    KafkaError._UNKNOWN_TOPIC: _GONE,
    KafkaError._UNKNOWN_PARTITION: _GONE,
    1: Rule(KafkaRefused, "out_of_range", "the offset is no longer, or not yet, on the broker"),
    3: _GONE,
    5: _MOVING,
    6: _MOVING,
    7: _SLOW,
    8: Rule(KafkaUnavailable, "unreachable", "the broker is not available"),
    9: _MOVING,
    10: Rule(
        KafkaRefused,
        "too_large",
        "a record is larger than the topic allows. Raise max.message.bytes of the topic",
    ),
    12: Rule(KafkaRefused, "metadata_too_large", "the offset metadata is larger than allowed"),
    14: _MOVING,
    15: _MOVING,
    16: _MOVING,
    17: Rule(KafkaRefused, "invalid_topic", "the topic name is not allowed by Kafka", quote=True),
    19: Rule(
        KafkaUnavailable,
        "few_replicas",
        "fewer replicas are in sync than min.insync.replicas requires",
    ),
    20: Rule(
        KafkaUnavailable,
        "few_replicas",
        "fewer replicas are in sync than min.insync.replicas requires",
    ),
    25: Rule(KafkaRefused, "group_active", "the consumer group has active members"),
    29: _rights("topic", "the operation that is missing"),
    30: _rights("consumer group", "Read and Describe"),
    31: _rights(
        "cluster",
        "what is missing (Describe to list groups, Create for topics, Write on a topic to write)",
    ),
    32: Rule(
        KafkaRefused,
        "timestamp",
        "the timestamp is outside what the topic allows (message.timestamp.after.max.ms)",
    ),
    33: Rule(
        KafkaRefused,
        "mechanism",
        "the broker does not offer this SASL mechanism. Choose one that it offers",
    ),
    34: Rule(
        KafkaRefused,
        "protocol",
        "the listener does not accept a SASL login. Check the security protocol and the port",
    ),
    35: Rule(KafkaRefused, "version", "the broker is too old for this request"),
    36: Rule(KafkaRefused, "exists", "the topic already exists"),
    37: Rule(KafkaRefused, "partitions", "the number of partitions is invalid", quote=True),
    38: Rule(
        KafkaRefused,
        "replication",
        "the replication factor is higher than the number of brokers",
        quote=True,
    ),
    40: Rule(KafkaRefused, "config", "Kafka rejects one of the configs", quote=True),
    41: _MOVING,
    74: _MOVING,  # FENCED_LEADER_EPOCH: what we know of the leader is from before an election
    75: _MOVING,  # UNKNOWN_LEADER_EPOCH: the broker does not know of the election yet
    44: Rule(KafkaRefused, "policy", "a policy of the cluster forbids it", quote=True),
    47: _FENCED,
    51: Rule(
        KafkaUnavailable,
        "busy",
        "a transaction of the same owner is still being completed; if that lasts, a partition that "
        "it wrote has fewer replicas in sync than its min.insync.replicas",
    ),
    53: _rights("transactional id", "Write and Describe"),
    54: Rule(KafkaRefused, "security_off", "the cluster has no authorizer, so it stores no ACLs"),
    58: _LOGIN,
    60: Rule(KafkaUnavailable, "moving", "the partitions are being reassigned"),
    67: Rule(KafkaRefused, "group_active", "the consumer group still has members"),
    68: Rule(KafkaRefused, "group_active", "the consumer group still has members"),
    69: Rule(KafkaRefused, "not_found", "there is no such consumer group"),
    73: Rule(KafkaRefused, "deletion_off", "deletion of topics is switched off on the cluster"),
    88: Rule(KafkaUnavailable, "busy", "a transaction holds the offsets of the group"),
    89: Rule(KafkaUnavailable, "throttled", "the cluster's quota for such changes is exhausted"),
    90: _FENCED,
    100: _GONE,
}

# librdkafka's own errors that pass.
_RETRIABLE_LOCAL = frozenset(
    {
        KafkaError._DESTROY_BROKER,
        KafkaError._FAIL,
        KafkaError._INTR,
        KafkaError._IN_PROGRESS,
        KafkaError._ISR_INSUFF,
        KafkaError._OUTDATED,
        KafkaError._PREV_IN_PROGRESS,
        KafkaError._QUEUE_FULL,
        KafkaError._RETRY,
        KafkaError._UNKNOWN_BROKER,
        KafkaError._WAIT_CACHE,
        KafkaError._WAIT_COORD,
    }
)

_BY_CLASS: tuple[tuple[type[Exception], Rule], ...] = (
    (kafka.errors.SaslAuthenticationFailedError, _LOGIN),
    (kafka.errors.KafkaTimeoutError, _SLOW),
    (kafka.errors.KafkaConnectionError, _DOWN),
    (TimeoutError, _SLOW),
    (OSError, _DOWN),
)


# A fatal error is raised out of poll and flush whatever error_cb is set; with a delivery callback
# still to run, the interpreter turns that into a SystemError caused by it.
RAISED = (KafkaException, SystemError)


def translate(error: BaseException | KafkaError, *, where: str, doing: str) -> UnderstudyError:
    """Our error for a client's: `doing` is an infinitive ("list topics"), `where` an alias.

    An error that is ours already passes unchanged.
    """
    if isinstance(error, UnderstudyError):
        return error
    if isinstance(error, SystemError) and isinstance(error.__cause__, KafkaException):
        error = error.__cause__
    rule = _rule(error)
    words = f"{rule.words} ({_text(error)})" if rule.quote else rule.words
    sentence = f"Cluster {where}: cannot {doing}: {words}."
    if rule.code == "timeout":
        return timeout_error(where, sentence)
    return rule.kind(sentence, code=rule.code)


def translate_number(number: int, *, where: str, doing: str) -> UnderstudyError:
    """The same for an error number in an answer that was read by hand."""
    return translate(KafkaError(number), where=where, doing=doing)


def _rule(error: BaseException | KafkaError) -> Rule:
    number, text = _number(error), _text(error)
    if number in RULES:
        return RULES[number]
    for kind, rule in _BY_CLASS:
        if isinstance(error, kind):
            return rule
    return Rule(
        KafkaUnavailable if is_retriable(error) else KafkaRefused,
        "kafka",
        f"Kafka answered {text}" if text else "Kafka responded with an error that it does not name",
    )


def is_retriable(error: BaseException | KafkaError) -> bool:
    """Whether a retry may help, by the number and by what the client says.

    - librdkafka sets its flag in transactional calls only: errors of records and of admin requests
      never have it. So the protocol decides on the number.
    - After a fatal error a new producer may succeed.
    """
    error, number = _unwrapped(error), _number(error)
    if number in RULES:
        return RULES[number].kind is KafkaUnavailable
    if isinstance(error, KafkaError):
        is_named = number in _RETRIABLE_LOCAL or bool(kafka.errors.for_code(number).retriable)
        return is_named or error.retriable() or error.fatal()
    # kafka-python's errors have an attribute, confluent's a method.
    return isinstance(error, kafka.errors.KafkaError) and bool(error.retriable)


def is_passing(error: KafkaError) -> bool:
    """Whether a consumer reads on after it: it retries itself, and uses no consumer group."""
    return is_retriable(error) or error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def _unwrapped(error: BaseException | KafkaError) -> BaseException | KafkaError:
    return error.args[0] if isinstance(error, KafkaException) and error.args else error


def _number(error: BaseException | KafkaError) -> int | None:
    error = _unwrapped(error)
    if isinstance(error, KafkaError):
        code: int = error.code()
        return code
    errno = getattr(error, "errno", None)
    return errno if isinstance(error, kafka.errors.KafkaError) and errno is not None else None


def _text(error: BaseException | KafkaError) -> str:
    """The client's own words, on one line and without a full stop at the end."""
    error = _unwrapped(error)
    words = error.str() if isinstance(error, KafkaError) else f"{type(error).__name__}: {error}"
    return " ".join(str(words).split()).rstrip(".: ")[:300]
