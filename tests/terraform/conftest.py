"""The provider, built once, and the real command `terraform` against a live server.

Terraform comes from PATH, or from the directory in which `.ci/terraform` builds it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from pytest_django.live_server_helper import LiveServer

from controlplane.celery import app as celery
from mirrors.models import Role
from mirrors.services.users import create_token, ensure_person

ROOT = Path(__file__).parents[2]
PROVIDER = ROOT / "deploy" / "terraform"
QUICK = ROOT / ".ci" / "go-quick"


@dataclasses.dataclass(frozen=True)
class Done:
    """`code` of `plan` is 0 without a change, 2 with one; 1 is an error. `text` is in one line."""

    code: int
    text: str


@dataclasses.dataclass(frozen=True)
class Terraform:
    """A directory with a configuration, and Terraform in it."""

    command: str
    directory: Path
    environment: dict[str, str]

    def write(self, *blocks: str) -> None:
        text = "\n".join(blocks)
        (self.directory / "main.tf").write_text(text, encoding="utf-8")

    def run(self, *words: str, **variables: str) -> Done:
        done = subprocess.run(
            [self.command, *words, "-no-color"],
            cwd=self.directory,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        words = re.sub("[│╷╵]", " ", done.stdout + done.stderr).split()
        return Done(done.returncode, " ".join(words))

    def plan(self) -> Done:
        return self.run("plan", "-detailed-exitcode", "-input=false")

    def apply(self) -> None:
        done = self.run("apply", "-auto-approve", "-input=false")
        assert done.code == 0, done.text

    def state(self) -> dict[str, dict[str, Any]]:
        """The values of each resource and data source, by address."""
        done = subprocess.run(
            [self.command, "show", "-json"],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        rows = json.loads(done.stdout)["values"]["root_module"]["resources"]
        return {row["address"]: row["values"] for row in rows}


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "understudy")


@pytest.fixture(scope="session")
def terraform_command() -> str:
    built = _cache() / "terraform" / "terraform"
    found = shutil.which("terraform") or (str(built) if built.exists() else None)
    if found is None:
        pytest.skip("there is no terraform; `bash .ci/terraform` builds it")
    return found


@pytest.fixture(scope="session")
def go() -> str:
    found = shutil.which("go")
    if found is None:
        pytest.skip("the provider is built with Go, and there is no Go")
    return found


@pytest.fixture(scope="session")
def provider_directory(go: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("provider")
    program = directory / "terraform-provider-understudy"
    if subprocess.run([go, "mod", "download"], cwd=PROVIDER, timeout=600, check=False).returncode:
        pytest.skip("the modules of the provider cannot be downloaded")
    # Seconds after `make check`, which compiles the same; minutes on a busy machine without.
    build = ["bash", QUICK, "build", "-o", program, "."]
    subprocess.run(build, cwd=PROVIDER, check=True, timeout=800)
    return directory


@pytest.fixture
def start(
    transactional_db: None,
    live_server: LiveServer,
    terraform_command: str,
    provider_directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Terraform]:
    """Returns a Terraform in an empty directory, as a person with a role."""
    monkeypatch.setattr(celery.conf, "broker_url", "memory://")
    # A flush between tests takes the groups that a migration made.
    for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN):
        Group.objects.get_or_create(name=role.word)
        ensure_person(username=role.word, password=None, role=role)

    def begin(name: str = "first", role: Role = Role.ADMIN) -> Terraform:
        directory = tmp_path / name
        directory.mkdir()
        settings = directory / "cli.tfrc"
        overrides = f'dev_overrides {{ "understudy/understudy" = "{provider_directory}" }}'
        settings.write_text(f"provider_installation {{\n{overrides}\ndirect {{}}\n}}\n")
        return Terraform(
            terraform_command,
            directory,
            {
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "TF_CLI_CONFIG_FILE": str(settings),
                "CHECKPOINT_DISABLE": "1",
                # The database of the tests has one connection for all requests.
                "TF_CLI_ARGS_plan": "-parallelism=1",
                "TF_CLI_ARGS_apply": "-parallelism=1",
                "TF_CLI_ARGS_destroy": "-parallelism=1",
                "UNDERSTUDY_URL": live_server.url,
                "UNDERSTUDY_TOKEN": create_token(username=role.word),
            },
        )

    return begin


PROVIDERS = """
terraform {
  required_providers { understudy = { source = "understudy/understudy" } }
}
"""
