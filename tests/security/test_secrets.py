"""Secret references resolve only where the deployment allows, and values are never shown."""

from __future__ import annotations

import copy
import json
import os
import pickle
from pathlib import Path

import pytest

from mirrors.domain.errors import UnderstudyError
from mirrors.kafka.security.secrets import MAX_BYTES, RedactedStr, Secret, check_reference, resolve

CANARY = "Canary-7f3a-value"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    inside = tmp_path / "secrets"
    inside.mkdir()
    (inside / "password").write_text(CANARY + "\n")
    (tmp_path / "outside").write_text(CANARY)
    return inside


def look(reference: str, root: Path | None = None, **names: str) -> Secret:
    return resolve(reference, environ={"UNDERSTUDY_SECRET_ROOTS": str(root), **names})


def refusal(reference: str, root: Path | None = None, **names: str) -> str:
    with pytest.raises(UnderstudyError) as caught:
        look(reference, root, **names)
    assert caught.value.code == "secret_unavailable"
    assert CANARY not in caught.value.message
    assert caught.value.__cause__ is None
    return caught.value.message


def test_an_environment_reference_gives_the_value() -> None:
    assert look("env:KAFKA_PASSWORD", KAFKA_PASSWORD=CANARY).reveal() == CANARY
    assert look("env:KAFKA_X", KAFKA_X="a\nb ").reveal() == "a\nb "


def test_a_file_reference_gives_its_text_without_the_last_line_end(root: Path) -> None:
    assert look(f"file:{root}/password", root).reveal() == CANARY
    (root / "two").write_bytes(b"one\r\ntwo\r\n")
    assert look(f"file:{root}/two", root).reveal() == "one\r\ntwo"


def test_one_key_of_a_file_of_java_properties_is_read_as_java_reads_it(root: Path) -> None:
    (root / "kafka.properties").write_text(
        f"# c\nother=1\npw=old\npw = {CANARY[:6]}\\\n  {CANARY[6:]}\n"
    )
    place = f"properties:{root}/kafka.properties"
    assert look(f"{place}:pw", root).reveal() == CANARY
    assert "no such key" in refusal(f"{place}:absent", root)
    for wrong in (
        f"{place}",
        f"properties:{root.parent}/outside:pw",
        "properties:/etc/passwd:root",
    ):
        assert "not allowed" in refusal(wrong, root)
        assert check_reference(wrong, environ={"UNDERSTUDY_SECRET_ROOTS": str(root)})
    assert check_reference(f"{place}:pw", environ={"UNDERSTUDY_SECRET_ROOTS": str(root)}) is None


@pytest.mark.parametrize(
    "name", ["PATH", "SECRET_WORD", "kafka_password", "KAFKA_", "KAFKA_X;Y", ""]
)
def test_names_outside_the_pattern_are_refused(name: str) -> None:
    message = refusal(f"env:{name}", **({name: CANARY} if name else {}))
    assert "env:NAME" in message or "UNDERSTUDY_SECRET_ENV_PATTERN" in message


def test_the_pattern_is_the_deployments() -> None:
    allowed = {"UNDERSTUDY_SECRET_ENV_PATTERN": "^PROD_[A-Z]+$", "PROD_A": CANARY, "KAFKA_A": "x"}
    assert look("env:PROD_A", **allowed).reveal() == CANARY
    assert "PROD_" in refusal("env:KAFKA_A", **allowed)


def test_an_unset_name_and_an_empty_one_are_named() -> None:
    assert "env:KAFKA_GONE cannot be resolved" in refusal("env:KAFKA_GONE")
    assert "env:KAFKA_GONE cannot be resolved" in refusal("env:KAFKA_GONE", KAFKA_GONE="")


def test_paths_outside_the_roots_are_refused(root: Path) -> None:
    (root / "link").symlink_to(root.parent / "outside")
    (root / "folder").symlink_to(root.parent)
    for path in (
        "/etc/hostname",
        f"{root}/../outside",
        f"{root}/link",
        f"{root}/folder/outside",
        f"{root}-beside/x",
        "relative",
        "/proc/self/environ",
        f"{root}/pass\0word",
    ):
        assert "must be under" in refusal(f"file:{path}", root)


def test_a_link_that_stays_inside_is_followed(root: Path) -> None:
    (root / "..data").mkdir()
    (root / "..data" / "key").write_text("inside")
    (root / "key").symlink_to(root / "..data" / "key")
    assert look(f"file:{root}/key", root).reveal() == "inside"


def test_several_roots_and_the_default(root: Path) -> None:
    both = f"/nowhere{os.pathsep}{root}"
    found = resolve(f"file:{root}/password", environ={"UNDERSTUDY_SECRET_ROOTS": both})
    assert found.reveal() == CANARY
    with pytest.raises(UnderstudyError, match="/run/secrets"):
        resolve(f"file:{root}/password", environ={})


def test_what_is_no_readable_text_file_is_named(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "large").write_bytes(b"x" * (MAX_BYTES + 1))
    (root / "binary").write_bytes(b"\xff\xfe\x00")
    (root / "empty").write_bytes(b"\n")
    words = {
        "absent": "no such file",
        "pipe": "no such file",
        "": "no such file",
        "large": "larger than",
        "binary": "not UTF-8",
        "empty": "an empty file",
    }
    for name, expected in words.items():
        assert expected in refusal(f"file:{root}/{name}", root)


@pytest.mark.parametrize(
    "typed", [CANARY, "", "env:", "file:", "vault:x", "ENV:KAFKA_X", "x:env:A"]
)
def test_a_value_typed_in_place_of_a_reference_is_refused_and_not_repeated(typed: str) -> None:
    message = refusal(typed)
    assert "env:NAME or file:/path" in message
    assert check_reference(typed, environ={})


def test_references_are_checked_without_being_read(root: Path) -> None:
    names = {"UNDERSTUDY_SECRET_ROOTS": str(root)}
    assert check_reference("env:KAFKA_NOT_SET_HERE", environ=names) is None
    assert check_reference(f"file:{root}/not-there-yet", environ=names) is None
    assert "must be under" in (check_reference("file:/etc/passwd", environ=names) or "")


def test_a_secret_never_shows() -> None:
    secret = Secret(CANARY)
    for shown in (repr(secret), str(secret), f"{secret}", f"{secret:>9}", f"{[secret]}"):
        assert CANARY not in shown
    for leave in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError):
            leave(secret)  # type: ignore[operator]
    assert not hasattr(secret, "__dict__")
    assert secret == Secret(CANARY)
    assert secret != CANARY
    assert len({secret, Secret(CANARY)}) == 1
    assert bool(secret)


def test_a_quiet_string_is_the_value_to_a_client_and_hidden_in_a_dictionary() -> None:
    quiet = Secret(CANARY).quiet()
    assert isinstance(quiet, RedactedStr)
    assert quiet == CANARY
    assert CANARY not in repr({"sasl.password": quiet})
