"""The wheel: it has all that a checkout has, and runs outside one without writing beside itself."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Only in a checkout: what makes and tests it.
_PACKAGES = ("controlplane", "mirrors", "monitoring", "spark_runner")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(directory)]
    done = subprocess.run([*command, str(ROOT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = directory.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpacked into a directory that nobody may write to, as root installs it for others."""
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def test_it_holds_every_file_that_a_program_reads(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    expected = {
        path.relative_to(ROOT).as_posix() for package in _PACKAGES for path in _tracked(package)
    }
    expected |= {f"controlplane/resources/{name}" for name in _tracked_names("templates")}
    expected |= {f"controlplane/resources/{name}" for name in _tracked_names("docs/runbooks")}
    assert expected - packed == set()
    assert not [name for name in packed if "/tests/" in name or name.startswith("tests/")]


def test_outside_a_checkout_it_migrates_renders_and_writes_to_its_own_directory(
    installed: Path, tmp_path: Path
) -> None:
    before = _files(installed)
    script = (
        "import django; django.setup()\n"
        "from django.core.management import call_command as call\n"
        "from django.test import Client\n"
        "call('check'); call('migrate', verbosity=0)\n"
        "answer = Client().get('/login/', HTTP_HOST='localhost')\n"
        "assert answer.status_code == 200 and b'Understudy' in answer.content\n"
        "from monitoring.alerts.links import read_runbook\n"
        "assert read_runbook('gap')[0]\n"
        "from django.contrib.staticfiles import finders\n"
        "assert finders.find('plotly/plotly.min.js')\n"
        "import controlplane; print(controlplane.__file__)\n"
    )
    done = _python(installed, tmp_path, "-c", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(f"{installed}/controlplane/__init__.py")
    assert (tmp_path / "state" / "db.sqlite3").is_file()
    assert _files(installed) == before


def test_its_command_says_what_it_can_do(installed: Path, tmp_path: Path) -> None:
    (scripts,) = installed.glob("*.dist-info/entry_points.txt")
    assert "understudy = controlplane.cli.main:main" in scripts.read_text()
    script = "from controlplane.cli.main import main; main(['--help'])"
    done = _python(installed, tmp_path, "-c", script)
    assert done.returncode == 0, done.stderr
    for command in ("demo", "serve", "simulate", "flows", "import"):
        assert f"\n  {command} " in done.stdout


def _python(site: Path, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment = {
        **kept,
        "PYTHONPATH": str(site),
        "PYTHONDONTWRITEBYTECODE": "1",
        "UNDERSTUDY_HOME": str(directory / "state"),
        "DJANGO_SETTINGS_MODULE": "controlplane.settings",
    }
    (directory / "state").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _tracked_names(folder: str) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in _tracked(folder)]


def _tracked(folder: str) -> list[Path]:
    return [
        path
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so"
    ]


def _files(site: Path) -> set[str]:
    return {path.relative_to(site).as_posix() for path in site.rglob("*")}
