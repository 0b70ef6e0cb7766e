"""Every error of either client is translated into one sentence that says what to do."""

from __future__ import annotations

import inspect
from typing import Any

import kafka.errors
import pytest
from confluent_kafka import KafkaError, KafkaException

from mirrors.domain.errors import Fenced, KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.kafka.error_codes import failure
from mirrors.kafka.errors import RULES, is_passing, translate, translate_number

KINDS = [
    (KafkaError._TRANSPORT, KafkaUnavailable, "unreachable"),
    (KafkaError._ALL_BROKERS_DOWN, KafkaUnavailable, "unreachable"),
    (KafkaError._RESOLVE, KafkaUnavailable, "dns"),
    (KafkaError._SSL, KafkaUnavailable, "tls"),
    (KafkaError._TIMED_OUT, KafkaUnavailable, "timeout"),
    (KafkaError._AUTHENTICATION, KafkaRefused, "authentication"),
    (KafkaError.SASL_AUTHENTICATION_FAILED, KafkaRefused, "authentication"),
    (KafkaError.UNSUPPORTED_SASL_MECHANISM, KafkaRefused, "mechanism"),
    (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaRefused, "not_authorised"),
    (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaRefused, "not_authorised"),
    (KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaRefused, "not_authorised"),
    (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, KafkaRefused, "not_authorised"),
    (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaUnavailable, "moving"),
    (KafkaError._FENCED, Fenced, "fenced"),
    (KafkaError.INVALID_PRODUCER_EPOCH, Fenced, "fenced"),
    (90, Fenced, "fenced"),
    (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaRefused, "not_found"),
    (100, KafkaRefused, "not_found"),
    (KafkaError.UNKNOWN_MEMBER_ID, KafkaRefused, "group_active"),
]


@pytest.mark.parametrize(("number", "kind", "code"), KINDS)
def test_an_error_number_has_its_kind_and_code_by_whatever_road_it_comes(
    number: int, kind: type[UnderstudyError], code: str
) -> None:
    for error in (KafkaError(number), KafkaException(KafkaError(number))):
        ours = translate(error, where="primary", doing="look")
        assert (type(ours), ours.code) == (kind, code)
    assert translate_number(number, where="primary", doing="look").code == code


def test_every_rule_is_one_whole_sentence_that_names_cluster_and_act() -> None:
    for number in RULES:
        message = translate(KafkaError(number), where="primary", doing="list topics").message
        assert message.startswith("Cluster primary: cannot list topics: ")
        assert message.endswith(".")
        assert ".." not in message
        assert "\n" not in message


def test_every_error_of_kafka_python_is_translated() -> None:
    kind: Any
    for name, kind in inspect.getmembers(kafka.errors, inspect.isclass):
        if issubclass(kind, kafka.errors.KafkaError):
            ours = translate(kind("words"), where="primary", doing="look")
            assert isinstance(ours, UnderstudyError), name
            assert ours.message.startswith("Cluster primary: cannot look: "), name


def test_both_clients_numbers_agree() -> None:
    theirs = translate(kafka.errors.TopicAuthorizationFailedError(), where="a", doing="look")
    ours = translate(KafkaError(29), where="a", doing="look")
    assert theirs.message == ours.message


def test_kafkas_own_words_are_quoted_where_they_name_the_value() -> None:
    error = KafkaError(40, "Invalid value x for configuration retention.ms.")
    assert "(Invalid value x for configuration retention.ms)" in (
        translate(error, where="a", doing="create topic t").message
    )


def test_an_error_without_a_rule_is_quoted_on_one_line_and_its_retry_kept() -> None:
    error = KafkaException(KafkaError(87, "strange\nwords " * 100))
    ours = translate(error, where="a", doing="write t")
    assert isinstance(ours, KafkaRefused)
    assert "Kafka answered strange words strange" in ours.message
    assert len(ours.message) < 400
    retriable = translate(kafka.errors.TooManyInFlightRequests(), where="a", doing="look")
    assert isinstance(retriable, KafkaUnavailable)


UNLISTED = [
    (56, KafkaUnavailable),  # KAFKA_STORAGE_ERROR
    (78, KafkaUnavailable),  # OFFSET_NOT_AVAILABLE
    (39, KafkaRefused),  # INVALID_REPLICA_ASSIGNMENT
    (87, KafkaRefused),  # INVALID_RECORD
]


@pytest.mark.parametrize(("number", "kind"), UNLISTED)
def test_the_protocol_says_whether_an_error_without_a_rule_may_be_retried(
    number: int, kind: type[UnderstudyError]
) -> None:
    """librdkafka sets its flag in transactional calls only."""
    of_a_client = (
        KafkaError(number),
        KafkaException(KafkaError(number)),
        kafka.errors.for_code(number)(),
    )
    for error in of_a_client:
        assert type(translate(error, where="a", doing="look")) is kind, repr(error)
    assert type(translate_number(number, where="a", doing="look")) is kind
    assert type(failure(number, where="a", doing="look")) is kind


def test_the_flag_of_the_client_counts_where_it_is_set() -> None:
    state = KafkaError._STATE
    assert type(translate(KafkaError(state), where="a", doing="look")) is KafkaRefused
    for flags in ({"retriable": True}, {"fatal": True}):
        error = KafkaError(state, "words", **flags)
        for wrapped in (error, KafkaException(error)):
            assert type(translate(wrapped, where="a", doing="look")) is KafkaUnavailable, flags


def test_a_reader_waits_out_what_the_protocol_calls_retriable() -> None:
    for number in (7, 13, 30, 56, 78, KafkaError._TRANSPORT, KafkaError._WAIT_COORD):
        assert is_passing(KafkaError(number)), number
    # A missing topic and an internal error of the broker are the caller's to judge.
    for number in (-1, 1, 3, 29, 87, 100, KafkaError._AUTO_OFFSET_RESET):
        assert not is_passing(KafkaError(number)), number


def test_a_fatal_error_that_came_out_of_a_callback_is_found() -> None:
    error = SystemError("returned a result with an exception set")
    error.__cause__ = KafkaException(KafkaError(KafkaError._FENCED))
    assert isinstance(translate(error, where="a", doing="write"), Fenced)


def test_what_the_system_says_is_translated_and_what_is_ours_passes() -> None:
    assert translate(TimeoutError(), where="a", doing="look").code == "timeout"
    assert translate(ConnectionResetError(), where="a", doing="look").code == "unreachable"
    ours = KafkaRefused("Said already.")
    assert translate(ours, where="a", doing="look") is ours
