"""The worker's end of functions on schemas, without Spark: a schema is there before its record."""

from __future__ import annotations

import json
import select
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.schemas.registry import URL, RegistrySpec, registry_of
from mirrors.domain.schemas.subjects import SubjectSelection
from mirrors.domain.transforms.rules import TransformRule
from mirrors.kafka.schemas.connection import RegistryUnavailable
from spark_runner.sql.columns import KIND, RECORD, RESULT, SCHEMAS
from spark_runner.sql.evaluator import ArrowEvaluator
from spark_runner.sql.schemas import SchemaFiles, ids_of
from tests.schemas.documented_registry import DocumentedRegistry
from tests.schemas.fake_registry import FakeRegistry

RULE = TransformRule(topics=".*", value="avro_mask(value, null, 'email')")
FRAMED = b"\0\0\0\0\x07rest"


@pytest.fixture
def place(fake: FakeRegistry) -> RegistrySpec:
    fake.answers["/schemas/ids/7"] = (200, {"schema": '"string"'})
    spec = registry_of("east", {URL: fake.url})
    assert spec is not None
    return spec


@pytest.fixture
def evaluator(place: RegistrySpec) -> Iterator[ArrowEvaluator]:
    found = ArrowEvaluator([RULE], {})
    found.read_schemas(place, None)
    yield found
    found.close()


def row(value: bytes | None) -> Any:
    fields = SimpleNamespace(key=None, value=value, headers=())
    return (SimpleNamespace(offset=1, timestamp=-1, rest=b""), fields, 0)


def test_a_schema_is_a_file_before_spark_gets_its_first_record(
    evaluator: ArrowEvaluator, fake: FakeRegistry
) -> None:
    evaluator.send(0, "people", 0, [row(FRAMED), row(None), row(b"plain")])
    evaluator.send(0, "people", 0, [row(FRAMED)])
    # The thread of the copy loop has not called the registry.
    assert not fake.paths
    evaluator.end("result")
    folders = set()
    for batch in evaluator.batches():
        kinds, places = batch.column(KIND).to_pylist(), batch.column(SCHEMAS).to_pylist()
        for kind, folder in zip(kinds, places, strict=True):
            if kind == RECORD:
                folders.add(folder)
                found = json.loads((Path(folder) / "7.json").read_text())
                assert found == {"kind": "AVRO", "texts": ['"string"']}
    assert len(folders) == 1
    assert fake.paths == ["/schemas/ids/7"]


def test_a_registry_that_does_not_respond_ends_the_copy_loop_with_its_reason(
    evaluator: ArrowEvaluator, fake: FakeRegistry
) -> None:
    fake.answers["/schemas/ids/7"] = (503, {})
    evaluator.send(0, "people", 0, [row(FRAMED)])
    evaluator.send(0, "people", 0, [row(FRAMED)])
    evaluator.end("result")
    passed = [kind for batch in evaluator.batches() for kind in batch.column(KIND).to_pylist()]
    # A record without its schema would fail, and could become a dead letter.
    assert RECORD not in passed
    assert passed.count(RESULT) == 1
    readable, _, _ = select.select([evaluator], [], [], 5)
    assert readable
    for _ in range(2):
        with pytest.raises(RegistryUnavailable, match="it responded 503"):
            evaluator.receive()


def test_an_unknown_id_has_no_file_and_is_asked_again_later(
    place: RegistrySpec, fake: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SchemaFiles(place, None, tmp_path / "schemas")
    files.fetch({7, 8})
    files.fetch({7, 8})
    assert fake.paths == ["/schemas/ids/7", "/schemas/ids/8"]
    assert [path.name for path in files.folder.iterdir()] == ["7.json"]
    fake.answers["/schemas/ids/8"] = (200, {"schema": '"int"'})
    monkeypatch.setattr("spark_runner.sql.schemas._AGAIN_S", 0.0)
    files.fetch({7, 8})
    assert (files.folder / "8.json").exists()


def test_the_id_of_the_target_is_found_by_its_own_names_and_versions(tmp_path: Path) -> None:
    source, target = DocumentedRegistry(first_id=100), DocumentedRegistry(first_id=500)
    base = {"type": "record", "name": "Base", "fields": []}
    user = {"type": "record", "name": "User", "fields": []}
    source.add("base", {**base, "name": "Old"})
    source.add("base", base)
    reference = {"name": "Base", "subject": "base", "version": 2}
    used = source.add("user", user, references=[reference])
    specs = [registry_of("x", {URL: side.url}) for side in (source, target)]
    names = SubjectSelection(template="dr.${subject}")
    files = SchemaFiles(specs[0], specs[1], tmp_path / "schemas", names)
    files.fetch({used})
    assert files.missing == {used}
    assert not (files.folder / f"{used}.target").exists()
    target.add("dr.base", base)
    there = target.add(
        "dr.user", user, references=[{"name": "Base", "subject": "dr.base", "version": 1}]
    )
    files = SchemaFiles(specs[0], specs[1], tmp_path / "again", names)
    files.fetch({used})
    assert (files.folder / f"{used}.target").read_text() == str(there)
    assert not files.missing
    for side in (source, target):
        side.close()


@pytest.mark.parametrize("waits", [True, False])
def test_the_copy_loop_knows_the_ids_that_the_target_lacks_unless_they_fail(
    place: RegistrySpec, fake: FakeRegistry, waits: bool
) -> None:
    fake.answers["/schemas/ids/7/versions"] = (200, [{"subject": "people", "version": 1}])
    rule = TransformRule(topics=".*", value="target_schema(value)")
    found = ArrowEvaluator([rule], {})
    # The same server: it has no such schema under the subject.
    found.read_schemas(place, place, waits=waits)
    found.send(0, "people", 0, [row(FRAMED)])
    found.end("result")
    assert list(found.batches())
    assert found.missing_ids == ({7} if waits else set())
    found.close()


def test_a_source_without_a_registry_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="the source cluster has no schema registry"):
        SchemaFiles(None, None, tmp_path)


def test_ids_are_those_of_whole_prefixes() -> None:
    assert ids_of([FRAMED, None, b"", b"\0", b"\0\0\0\0", b"x\0\0\0\1", b"\0\0\0\1\0"]) == {7, 256}
