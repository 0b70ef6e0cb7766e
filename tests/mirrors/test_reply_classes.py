"""The parser of a response is found for every request, from several threads at once."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import time
from collections.abc import Iterator
from typing import Any

import kafka.protocol
import pytest
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.protocol.connection import BrokerConnection
from mirrors.kafka.protocol.messages import reply_of
from mirrors.kafka.security.connection_settings import connection_facts


def requests() -> dict[int, Any]:
    found: dict[int, Any] = {}
    for row in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" in row.name or row.name.endswith("generate_stubs"):
            continue
        for kind in vars(importlib.import_module(row.name)).values():
            message = isinstance(kind, type) and issubclass(kind, ApiMessage)
            if message and kind is not ApiMessage and kind.is_request():
                found[kind.API_KEY] = kind
    return found


def test_every_request_of_the_library_has_its_reply() -> None:
    kinds = requests()
    assert len(kinds) > 40
    for key, kind in kinds.items():
        reply = reply_of(kind())
        assert (reply.API_KEY, reply.is_request()) == (key, False)


@pytest.fixture
def lost_race() -> Iterator[None]:
    """What two threads leave that make the class of a version at once: of two classes the kept one
    is not the registered one, and the other is gone."""
    for version in range(MetadataResponse.max_version + 1):
        MetadataResponse._VERSIONS.pop(version, None)
        MetadataResponse[version]
        kept = MetadataResponse._VERSIONS.pop(version)
        MetadataResponse[version]
        MetadataResponse._VERSIONS[version] = kept
    gc.collect()
    with pytest.raises(ReferenceError):
        assert ResponseClassRegistry._response_class_registry[3].API_KEY
    yield
    ResponseClassRegistry.register_response_class(MetadataResponse)


@pytest.mark.usefixtures("lost_race")
def test_a_broker_is_asked_though_the_library_lost_the_class_of_its_reply(primary: str) -> None:
    facts = connection_facts(ClusterSpec(alias="primary", bootstrap_servers=primary))
    until = time.monotonic() + 20
    with BrokerConnection(facts, *facts.bootstrap[0], client_id="test").connect(
        until
    ) as connection:
        assert connection.call(MetadataRequest(topics=[]), until).brokers
