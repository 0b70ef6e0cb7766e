"""Tokens for Amazon MSK are signed by Amazon's package, only for MSK, and never waited for long."""

from __future__ import annotations

import sys
import time
import types
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.kafka.connection.client_config import client_config
from mirrors.kafka.security import msk_iam
from mirrors.kafka.security.oauth import fetch_token
from tests.domain.cases import cluster

HOST = "b-1.demo.x1.c2.kafka.eu-west-1.amazonaws.com:9098"
ROLE = "arn:aws:iam::123456789012:role/mirror"


def msk(**more: Any) -> Any:
    properties = {"aws.msk.region": "eu-west-1", **more.pop("properties", {})}
    fields = {
        "bootstrap_servers": HOST,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
    }
    return cluster(more.pop("alias", "a"), properties=properties, **{**fields, **more})


@pytest.fixture
def signer(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    def install(sign: Callable[..., Any]) -> None:
        module = types.ModuleType("MSKAuthTokenProvider")
        module.generate_auth_token = sign  # type: ignore[attr-defined]
        module.generate_auth_token_from_role_arn = sign  # type: ignore[attr-defined]
        package = types.ModuleType("aws_msk_iam_sasl_signer")
        monkeypatch.setitem(sys.modules, package.__name__, package)
        monkeypatch.setitem(sys.modules, f"{package.__name__}.{module.__name__}", module)

    return install


def test_a_token_is_signed_for_the_region_and_the_role(signer: Any) -> None:
    asked = []

    def sign(*arguments: str) -> tuple[str, int]:
        asked.append(arguments)
        return "signed-token-text", int(time.time() * 1000) + 900_000

    signer(sign)
    token = fetch_token(msk())
    assert token.value.reveal() == "signed-token-text"
    assert 890 < token.lifetime < 901
    fetch_token(msk(properties={"aws.msk.role.arn": ROLE}))
    assert asked == [("eu-west-1",), ("eu-west-1", ROLE)]
    config = client_config(msk(alias="native"), client_id="x")
    assert config["sasl.mechanism"] == "OAUTHBEARER"
    assert config["oauth_cb"]("")[0] == "signed-token-text"


def test_what_aws_does_not_give_is_said_in_time_and_without_its_text(signer: Any) -> None:
    def fail(*_: str) -> None:
        raise ValueError("AKIA-secret")

    signer(fail)
    with pytest.raises(KafkaRefused, match="no identity") as refused:
        fetch_token(msk())
    assert "AKIA" not in str(refused.value)
    signer(lambda *_: time.sleep(5))
    began = time.monotonic()
    with pytest.raises(KafkaUnavailable, match="in 1 s"):
        fetch_token(msk(), deadline_s=1.0)
    assert time.monotonic() - began < 4


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(msk_iam, "_MODULE", "no_such_package_here")
    with pytest.raises(UnderstudyError, match=r"understudy\[aws\]"):
        fetch_token(msk())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bootstrap_servers": "evil.example:9098"}, "every address must be one of MSK"),
        ({"bootstrap_servers": f"{HOST},x.kafka.eu-west-1.amazonaws.com.evil.example:1"}, "MSK"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "needs SASL_SSL"),
        ({"sasl_username": "u"}, "does not use it"),
        ({"properties": {"aws.msk.region": "x.y"}}, "must be a region"),
        ({"properties": {"aws.msk.role.arn": "me"}}, "must be a role"),
        ({"properties": {"sasl.oauthbearer.scope": "s"}}, "does not use it"),
    ],
)
def test_only_msk_gets_the_identity_of_a_host(change: Mapping[str, Any], words: str) -> None:
    problems = msk(**change).validate()
    assert words in " ".join(text for texts in problems.values() for text in texts)
    assert msk().validate() == {}
