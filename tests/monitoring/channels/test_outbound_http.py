"""Requests to a URL that a user typed: no redirects, no address of this host, every IP tried."""

from __future__ import annotations

import socket

import pytest

from mirrors import outbound_http
from mirrors.outbound_http import post
from monitoring.models import Channel
from tests.monitoring.channels.conftest import deliver_test
from tests.monitoring.conftest import Receiver


def test_a_redirect_is_not_followed(channel: Channel, receiver: Receiver) -> None:
    receiver.answers = [(307, {"Location": receiver.url})]
    assert deliver_test(channel).state == "dead"
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[fe80::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://0xa9fea9fe/",
        "http://127.0.0.1/",
        "http://localhost/",
        "http://0.0.0.0/",
        # Private networks, shared address space, and the ways to write them in IPv6.
        "http://10.0.0.1/",
        "http://172.16.3.4:8080/",
        "http://192.168.1.1/",
        "http://100.64.0.1/",
        "http://[fd12::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[2002:a00:1::]/",
        "http://[2002:7f00:1::]/",
        "http://[64:ff9b::10.0.0.1]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[2001:0:a00:1::]/",
        "http://[fd00:ec2::254]/",
        "http://168.63.129.16/",
        "http://100.100.100.200/",
        "http://198.18.0.1/",
        "http://224.0.0.1/",
        "file:///etc/passwd",
        "http://",
    ],
)
def test_addresses_of_this_host_and_of_cloud_metadata_are_refused(url: str) -> None:
    outcome = post(url, b"{}", {})
    assert not outcome.ok
    assert not outcome.again or "does not resolve" in outcome.words
    assert "respond" not in outcome.words, "it was called"


def test_link_local_addresses_stay_forbidden_whatever_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_ALLOW", "*,0.0.0.0/0")
    for host in ("169.254.169.254", "[::ffff:169.254.169.254]", "168.63.129.16", "[fd00:ec2::254]"):
        assert "link-local" in post(f"http://{host}/", b"", {}).words
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_ALLOW", "hooks.example.com:443")
    assert "No rule in UNDERSTUDY_NOTIFY_ALLOW" in post("http://192.0.2.1/", b"", {}).words


def test_a_malformed_host_name_is_an_outcome_too() -> None:
    outcome = post(f"https://{'a' * 70}.example/", b"", {})
    assert (outcome.words, outcome.again) == ("The host name of the URL does not resolve.", True)


@pytest.mark.parametrize("first", ["127.0.0.2", "169.254.169.254"])
def test_a_host_whose_first_address_is_unreachable_or_forbidden_is_reached_at_the_next(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    port = int(receiver.url.split(":")[2].split("/")[0])
    found = [(socket.AF_INET, (address, port)) for address in (first, "127.0.0.1")]
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_ALLOW", "127.0.0.0/8")
    monkeypatch.setattr(outbound_http, "resolve_host", lambda *_: found)
    assert post(f"http://hooks.example:{port}/hook", b"{}", {}).ok
    assert [headers["Host"] for headers, _ in receiver.got] == [f"hooks.example:{port}"]
    receiver.answers.append((500, {}))
    assert not post(f"http://hooks.example:{port}/hook", b"{}", {}).ok
    assert len(receiver.got) == 2, "what was received is not sent again"
