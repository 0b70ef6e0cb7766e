"""docs/kubernetes: valid by Kubernetes' schemas, and its names exist in the product."""

from __future__ import annotations

import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pyspark
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "docs" / "kubernetes").glob("*.yaml"))
SCHEMAS = "1.37"


def documents() -> list[Any]:
    return [
        pytest.param(document, id=f"{document['kind']} {document['metadata']['name']}")
        for path in FILES
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]


def containers(document: dict[str, Any]) -> list[dict[str, Any]]:
    spec = document.get("spec", {}).get("template", {}).get("spec", {})
    return list(spec.get("containers", []))


@pytest.mark.parametrize("document", documents())
def test_a_manifest_is_valid_and_names_nothing_unknown(document: dict[str, Any]) -> None:
    kubernetes_validate.validate(document, SCHEMAS, strict=True)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    folder = ROOT / "docs" / "operations"
    page = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.md")))
    for container in containers(document):
        words = [*container["command"], *container.get("args", [])]
        target = words[words.index("make") + 1]
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
        assert all((ROOT / word).is_file() for word in words if word.startswith(".ci/"))
        for variable in container.get("env", []):
            assert f"`{variable['name']}`" in page


@pytest.mark.parametrize("document", [one for one in documents() if containers(one.values[0])])
def test_a_pod_asks_for_no_right_that_it_does_not_use(document: dict[str, Any]) -> None:
    """What a namespace wants that enforces Kubernetes' own standard `restricted`, and resources."""
    spec = document["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    # The worker alone may make pods, where executors.yaml lets it.
    assert spec.get("automountServiceAccountToken", True) == ("serviceAccountName" in spec)
    for container in containers(document):
        confined = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert container["securityContext"] == confined
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]


def test_the_migration_is_applied_by_itself() -> None:
    """All of one file begins at once: a service would start on a database of the old form."""
    kinds = {
        path.name: [row["kind"] for row in yaml.safe_load_all(path.read_text(encoding="utf-8"))]
        for path in FILES
    }
    assert [name for name, found in kinds.items() if "Job" in found] == ["migrate.yaml"]
    assert kinds["migrate.yaml"] == ["Job"]


def test_a_mistake_would_be_found() -> None:
    wrong = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"port": 1}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, SCHEMAS, strict=True)


def test_executors_find_their_settings_and_their_python() -> None:
    """Both are the worker's environment: without it Spark would take paths of our own image."""
    found = {
        row["metadata"]["name"]: row
        for path in FILES
        for row in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if row["kind"] in {"StatefulSet", "ConfigMap"}
    }
    worker = found["understudy-worker"]["spec"]["template"]["spec"]
    (container,) = worker["containers"]
    environment = {row["name"]: row.get("value", "") for row in container["env"]}
    (volume,) = [row for row in worker["volumes"] if "configMap" in row]
    assert "spark-defaults.conf" in found[volume["configMap"]["name"]]["data"]
    places = {row["name"]: row["mountPath"] for row in container["volumeMounts"]}
    assert places[volume["name"]] == environment["SPARK_CONF_DIR"]
    assert not environment["PYSPARK_PYTHON"].startswith("/app/")


def test_every_spark_setting_is_one_that_spark_has() -> None:
    """Spark ignores a misspelt setting in silence; the classes that declare them hold the names."""
    text = (ROOT / "docs" / "kubernetes" / "executors.yaml").read_text(encoding="utf-8")
    names = re.findall(r"^    (spark\.\S+)", text, re.MULTILINE)
    declared = b"".join(declarations())
    # A family's name ends where the part that one chooses begins.
    unknown = [
        name
        for name in names
        if constant(name) not in declared
        and constant(f"{name.rpartition('.')[0]}.") not in declared
    ]
    assert len(names) > 10
    assert unknown == []


def constant(text: str) -> bytes:
    """As a class file holds it (JVM specification 4.4.7): no part of a longer name counts."""
    return len(text).to_bytes(2, "big") + text.encode()


def declarations() -> Iterator[bytes]:
    for jar in (Path(pyspark.__file__).parent / "jars").glob("spark-[ck]*.jar"):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if re.match(r"org/apache/spark/(internal/config/|deploy/k8s/Config)", name):
                    yield archive.read(name)


def test_images_are_checked_for_their_digests(tmp_path: Path) -> None:
    """Every image that a file names by a tag has a variable, and the check knows each variable."""
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    checked = (ROOT / ".ci" / "image-digests").read_text(encoding="utf-8")
    images = re.findall(r"^\s*image: (\S+)", compose, re.MULTILINE)
    named = re.findall(r"\$\{(UNDERSTUDY_\w+_IMAGE)", compose)
    assert all(name == "understudy" or name.startswith("${UNDERSTUDY_") for name in images)
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) == {"${PYTHON_IMAGE}"}
    assert set(named) == set(re.findall(r"UNDERSTUDY_\w+_IMAGE", checked))

    file = tmp_path / ".env"
    digest = f"@sha256:{'ab' * 32}"

    def check(*lines: str) -> tuple[int, str]:
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        words = ["bash", str(ROOT / ".ci" / "image-digests"), str(file)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stderr

    python, postgres = f"UNDERSTUDY_PYTHON_IMAGE=python{digest}", "UNDERSTUDY_POSTGRES_IMAGE="
    assert check(python, f"{postgres}registry:5000/postgres{digest}") == (0, "")
    code, said = check(python, f"{postgres}postgres:15")
    assert code == 1
    assert said.count("\n") == 1
    assert "UNDERSTUDY_POSTGRES_IMAGE is postgres:15; set NAME@sha256:" in said
    for wrong in (f"postgres{digest[:-1]}", f"{digest}", f"postgres{digest}0", ""):
        assert check(python, f"{postgres}{wrong}")[0] == 1
    assert "UNDERSTUDY_PYTHON_IMAGE is not set" in check()[1]
