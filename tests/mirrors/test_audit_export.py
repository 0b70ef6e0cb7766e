"""The audit log in other systems: every sealed entry once, in order, with its digest."""

from __future__ import annotations

import io
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from django.core.management import CommandError, call_command

from mirrors.domain.audit import chain as rules
from mirrors.models.audit.transitions import write_entry
from mirrors.services.audit.export import syslog_frame


@pytest.fixture
def entries(db: None) -> None:
    for number in range(5):
        write_entry(
            who="ann",
            name=f"flow {number} \u00e9\nx",
            to_state="edited",
            subject="flow",
            subject_id=number,
            field="settings",
        )


class Receiver:
    """A server that reads syslog frames by their length."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self.heard: list[str] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                while length := _until_space(stream):
                    self.heard.append(stream.read(int(length)).decode())

    def close(self) -> None:
        # `accept` of another thread does not end with the socket alone.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        assert not self._thread.is_alive()


def _until_space(stream: BinaryIO) -> bytes:
    """Empty at the end of the stream, where `read` returns at once, again and again."""
    found = b""
    while (byte := stream.read(1)) not in (b" ", b""):
        found += byte
    return found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def lines(**options: object) -> list[dict[str, object]]:
    out = io.StringIO()
    call_command("export_audit", stdout=out, stderr=io.StringIO(), **options)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_json_lines_have_what_the_chain_covers(entries: None) -> None:
    rows = lines(after=0)
    assert [row["position"] for row in rows] == [1, 2, 3, 4, 5]
    digest = rules.START
    for row in rows:
        facts = {name: value for name, value in row.items() if name not in ("position", "digest")}
        digest = rules.digest_of(digest, row["position"], facts)
        assert digest == row["digest"]
    assert [row["position"] for row in lines(after=3)] == [4, 5]


def test_syslog_gets_each_entry_once_and_goes_on_where_it_ended(
    entries: None, receiver: Receiver, tmp_path: Path
) -> None:
    state = tmp_path / "position"
    lines(syslog=receiver.address, state=str(state))
    assert state.read_text() == "5\n"
    lines(syslog=receiver.address, state=str(state))
    assert len(receiver.heard) == 5
    for number, message in enumerate(receiver.heard):
        found = re.fullmatch(r"<109>1 (\S+) (\S+) understudy - audit - (\{.*\})", message)
        assert found is not None, message
        assert json.loads(found[3])["name"] == f"flow {number} \u00e9\nx"


def test_a_refused_request_is_a_warning(entries: None) -> None:
    [entry, *_] = lines(after=0)
    assert (
        syslog_frame({**entry, "result": "refused"}, "a b").split(b" ", 1)[1].startswith(b"<108>1 ")
    )


def test_no_server_and_a_wrong_address_are_said_in_a_sentence(
    entries: None, tmp_path: Path
) -> None:
    state = tmp_path / "position"
    with pytest.raises(CommandError, match="cannot be reached"):
        lines(syslog="tcp://127.0.0.1:9", state=str(state))
    assert not state.exists()
    for wrong in ("udp://x:1", "tcp://x", "tcp://x:0", "tcp://x:99999", "logs:514"):
        with pytest.raises(CommandError, match="not the address of a syslog server"):
            lines(syslog=wrong)
    state.write_text("five")
    with pytest.raises(CommandError, match="holds no position"):
        lines(state=str(state))
