"""Installed packages are the ones that were pinned, and their list can be handed out."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(ROOT.glob("requirements*.txt"))


def pinned(path: Path) -> dict[str, list[str]]:
    """Package -> its hashes."""
    found: dict[str, list[str]] = {}
    for block in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        name = re.match(r"([\w.-]+)==", block)
        assert name is not None, block
        found[name[1]] = re.findall(r"--hash=sha256:([0-9a-f]{64})", block)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_pinned_package_has_hashes(path: Path) -> None:
    packages = pinned(path)
    assert packages
    assert [name for name, hashes in packages.items() if not hashes] == []


def test_all_files_pin_the_same_versions() -> None:
    # A package may have one version for older and one for newer versions of Python.
    versions: dict[str, dict[str, set[str]]] = {}
    for path in FILES:
        for name, version in re.findall(r"^([\w.-]+)==([\w.]+)", path.read_text(), re.MULTILINE):
            versions.setdefault(name, {}).setdefault(path.name, set()).add(version)
    for name, files in versions.items():
        assert len(set(map(frozenset, files.values()))) == 1, (name, files)


def test_the_bill_of_materials_names_every_runtime_package_with_its_hashes(tmp_path: Path) -> None:
    file = tmp_path / "understudy.cdx.json"
    done = subprocess.run(
        ["make", "sbom", f"SBOM={file}", "-o", ".venv/.dev"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(file.read_text())
    assert document["bomFormat"] == "CycloneDX"
    assert document["metadata"]["component"]["name"] == "understudy"
    expected = pinned(ROOT / "requirements.txt")
    rows = {part["name"].lower().replace("_", "-"): part for part in document["components"]}
    assert {name.lower().replace("_", "-") for name in expected} - set(rows) == set()
    for part in document["components"]:
        hashes = [one for where in part["externalReferences"] for one in where.get("hashes", [])]
        assert hashes, part["name"]


NAME, VERSION = "understudy-install-probe", "1.0"


def own_package(directory: Path) -> Path:
    """A requirements file, beside the only wheel that it names; no index has it."""
    stem = f"{NAME.replace('-', '_')}-{VERSION}"
    wheel = directory / f"{stem}-py3-none-any.whl"
    texts = {
        "METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in texts.items():
            archive.writestr(f"{stem}.dist-info/{name}", text)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    file = directory / "requirements.txt"
    file.write_text(f"{NAME}=={VERSION} --hash=sha256:{digest}\n")
    return file


def installed_by(tmp_path: Path, **variables: str) -> str:
    """What the script says; it has installed the package."""
    file = own_package(tmp_path)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    environment = {**os.environ, "PIP_FIND_LINKS": str(tmp_path), **variables}
    done = subprocess.run(
        ["bash", ROOT / ".ci" / "install-packages", python, file],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format=json"], capture_output=True, check=True
    )
    assert {"name": NAME, "version": VERSION} in json.loads(listed.stdout)
    # Neither uv nor its cache stays.
    assert not list((tmp_path / "venv").glob("tmp.*"))
    return done.stderr


def test_pip_installs_the_packages_where_uv_cannot_be_had(tmp_path: Path) -> None:
    assert "uv did not install the packages; pip does." in installed_by(tmp_path, PIP_NO_INDEX="1")


def test_uv_installs_from_where_pip_is_told_to_look(tmp_path: Path) -> None:
    assert installed_by(tmp_path) == ""
