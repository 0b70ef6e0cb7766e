"""Each file of the corpus has the verdicts and the effective values that are written down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mirrors.domain.migration.imports.mm2_precedence import OLD_NAMES
from mirrors.domain.settings.table import KEYS, POLICY_CLASSES
from tests.domain.cases import golden
from tests.domain.import_corpus import EXPECTED, files, outcome, read

# Every refused file, with the reason why it is right to refuse it.
REFUSED = {
    "19-patterns.properties": "does not support",
    "23-kerberos.properties": "SCRAM-SHA-512",
    "24-own-filter.properties": "no class is loaded",
    "25-misspelled.properties": "Did you mean",
    "28-clear-text.properties": "write here",
    "46-two-addresses.json": "another alias",
    "54-message-handler.txt": "it loads code",
}


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_a_file_has_the_verdicts_and_values_that_are_written_down(path: Path) -> None:
    assert outcome(path) == json.loads(EXPECTED.read_text())[path.name]


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_a_file_is_imported_or_refused_for_a_named_reason(path: Path) -> None:
    reasons = " ".join(line.reason for line in read(path).refused)
    assert bool(reasons) is (path.name in REFUSED)
    assert REFUSED.get(path.name, "") in reasons


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_no_line_of_a_file_is_dropped_silently(path: Path) -> None:
    """Each line with a value has a verdict; lines that continue one have its number."""
    heard = {line.number for line in read(path).lines}
    text = path.read_bytes().decode().removeprefix("\ufeff")
    continues = False
    for number, line in enumerate(text.splitlines(), start=1):
        body = line.strip()
        is_value = not continues and _has_value(path, body)
        assert not is_value or number in heard, (number, body)
        continues = body.endswith("\\") and path.suffix == ".properties"


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_each_verdict_names_its_key_and_each_line_it_refers_to(path: Path) -> None:
    for line in read(path).lines:
        assert line.key.strip(), line
        assert "line None" not in line.reason, line


def _has_value(path: Path, body: str) -> bool:
    if not body or body.startswith("#"):
        return False
    if path.suffix == ".properties":
        return True
    if path.suffix == ".txt":
        return "=" in body and not body.startswith(("=", "-", "bin", "exec", "kafka"))
    if path.suffix == ".json":
        return '": "' in body
    return ": " in body and not body.startswith("- {") and body.split(": ")[1] not in {"|", ">"}


MM2 = golden("import_corpus")["files"]
# Refused for a secret in clear text, with the line to write; and MM2 lacked the secret's file.
SECRETS = {"28-clear-text.properties", "09-cloud-api-keys.properties"}


def test_nearly_all_that_mm2_accepts_is_imported() -> None:
    by_name = {path.name: path for path in files()}
    accepted = [name for name in MM2 if not MM2[name]["errors"] and name not in SECRETS]
    assert len(accepted) >= 30
    refused = [name for name in accepted if read(by_name[name]).refused]
    assert len(refused) <= 0.2 * len(accepted), refused


@pytest.mark.parametrize(
    "path", [path for path in files() if path.name in MM2], ids=lambda path: path.name
)
def test_the_effective_values_are_those_of_mm2(path: Path) -> None:
    plan = read(path)
    if plan.refused:
        return  # Another test names the reason.
    different = {line.key for line in plan.lines if line.verdict == "different"}
    different |= {new for old, new in OLD_NAMES.items() if old in different}
    if not MM2[path.name]["errors"]:
        assert {flow.name for flow in plan.flows} == _flows_of_mm2(path.name)
    for flow in plan.flows:
        for name, text in MM2[path.name]["flows"].get(flow.name, {}).items():
            key = KEYS[name]
            interval = name.removesuffix("enabled") + "interval.seconds"
            if {name, interval} & {key.rpartition("->")[2] for key in different} or any(
                one.endswith(f".{name}") for one in different
            ):
                continue  # The line says how it differs, such as an old name.
            if not _has_connector(path, name):
                continue
            ours = getattr(flow.settings, key.field)
            if name == "replication.policy.class":
                assert POLICY_CLASSES[ours] == POLICY_CLASSES[text]
            else:
                assert ours == key.kind.parse(text), name


def _flows_of_mm2(name: str) -> set[str]:
    """Return the flows that copy: pairs that only write heartbeats are none."""
    return {pair for pair, values in MM2[name]["flows"].items() if "topics" in values}


def _has_connector(path: Path, name: str) -> bool:
    return path.suffix == ".properties" or not name.startswith(("emit.", "checkpoints.topic"))


def test_the_corpus_is_large_enough_and_has_every_kind() -> None:
    assert len(files()) >= 40
    assert {path.suffix for path in files()} == {".properties", ".yaml", ".json", ".txt"}
    assert set(REFUSED) <= {path.name for path in files()}
