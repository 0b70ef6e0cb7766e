"""deploy/helm: what the chart renders is what docs/kubernetes has, and valid for Kubernetes.

Helm is built from its Go module, which takes a minute: `make test-chart`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.test_manifests import FILES, ROOT, SCHEMAS, containers

CHART = ROOT / "deploy" / "helm" / "understudy"
HELM = "helm.sh/helm/v3/cmd/helm@v3.19.0"
Render = Callable[..., list[dict[str, Any]]]
# A value set each: as it comes, with everything on, with everything off.
EVERYTHING = (
    "ingress.enabled=true",
    "ingress.className=nginx",
    "ingress.tlsSecret=tls",
    "supervision.storageClass=fast",
    "image.pullSecrets={registry}",
    "environment.UNDERSTUDY_LOG_LEVEL=DEBUG",
)
NOTHING = ("networkPolicy.enabled=false", "web.replicas=1", "secrets.kafka=", "secrets.notify=")


def chart_file(name: str) -> Any:
    return yaml.safe_load((CHART / name).read_text(encoding="utf-8"))


def test_the_chart_has_the_version_of_the_package_and_its_schema_every_value() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    about = chart_file("Chart.yaml")
    assert about["version"] == about["appVersion"] == project["version"]
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert set(schema["properties"]) - {"global"} == set(chart_file("values.yaml"))
    # A misspelled value is refused, not ignored.
    assert schema["additionalProperties"] is False


@pytest.fixture(scope="session")
def helm() -> str:
    go = shutil.which("go")
    if go is None:
        pytest.skip("Helm is built from its Go module, and there is no Go")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache, "understudy", "helm")
    if not (folder / "helm").exists():
        environment = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-mod=mod"}
        subprocess.run([go, "install", HELM], env=environment, check=True, timeout=900)
    return str(folder / "helm")


@pytest.fixture
def render(helm: str) -> Render:
    def documents(*values: str) -> list[dict[str, Any]]:
        options = [word for value in values for word in ("--set", value)]
        done = _run(helm, "template", "understudy", str(CHART), "--kube-version=1.37.0", *options)
        assert done.returncode == 0, done.stderr
        return [each for each in yaml.safe_load_all(done.stdout) if each]

    return documents


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.soak
def test_the_chart_passes_the_linter(helm: str) -> None:
    done = _run(helm, "lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


@pytest.mark.soak
@pytest.mark.parametrize("values", [(), EVERYTHING, NOTHING])
def test_each_document_is_valid_and_has_no_secret(render: Render, values: tuple[str, ...]) -> None:
    found = render(*values)
    for document in found:
        kubernetes_validate.validate(document, SCHEMAS, strict=True)
    assert "Secret" not in {document["kind"] for document in found}
    assert ("Ingress" in {document["kind"] for document in found}) == (values == EVERYTHING)


@pytest.mark.soak
def test_the_services_are_those_of_the_manifests(render: Render) -> None:
    written = [
        document for path in FILES for document in yaml.safe_load_all(path.read_text("utf-8"))
    ]

    def programs(documents: list[dict[str, Any]]) -> dict[str, Any]:
        """By target of make: what a service runs, reads and may do."""
        rows = {}
        for document in documents:
            for container in containers(document):
                spec = document["spec"]["template"]["spec"]
                words = [*container["command"], *container.get("args", [])]
                rows[words[words.index("make") + 1]] = {
                    "kind": document["kind"],
                    "secrets": [
                        source["secretRef"]["name"]
                        for source in container["envFrom"]
                        if "secretRef" in source
                    ],
                    "variables": {row["name"] for row in container.get("env", [])},
                    "security": container["securityContext"],
                    "user": spec["securityContext"],
                    "token": spec.get("automountServiceAccountToken", True),
                }
        return rows

    assert programs(render()) == programs(written)


@pytest.mark.soak
def test_an_image_is_named_by_its_digest(render: Render, helm: str) -> None:
    digest = f"sha256:{'0f' * 32}"
    found = render("image.tag=1.2.3", f"image.digest={digest}", "image.requireDigest=true")
    images = {row["image"] for document in found for row in containers(document)}
    assert images == {f"understudy@{digest}"}
    words = (helm, "template", "understudy", str(CHART), "--kube-version=1.37.0", "--set")
    for value in ("image.requireDigest=true", "image.digest=1.2.3"):
        done = _run(*words, value)
        assert done.returncode != 0
        assert "digest" in done.stderr


@pytest.mark.soak
@pytest.mark.parametrize("value", ["replicas=2", "web.replica=2", "web.replicas=many"])
def test_a_mistake_in_the_values_is_refused(helm: str, value: str) -> None:
    done = _run(helm, "template", "understudy", str(CHART), "--kube-version=1.37.0", "--set", value)
    assert done.returncode != 0
    assert value.partition("=")[0].rpartition(".")[2].removeprefix("/") in done.stderr
