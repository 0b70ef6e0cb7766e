"""Java's class archive: one runner at a time writes it, and a killed one leaves no remains."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from spark_runner.spark import java as module
from spark_runner.spark.class_data_archive import make_archive
from spark_runner.spark.java import (
    check_java,
    class_path_of,
    java_options,
    keep_archive,
    read_option,
    spark_jars,
)
from tests.spark.local_session import class_data_archive
from tests.spark.test_spark_settings import written


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A Java that has no archive yet."""
    monkeypatch.setenv("UNDERSTUDY_CACHE_DIR", str(tmp_path / "cache"))
    found = shutil.which("java")
    assert found is not None
    return found


def promised(options: str) -> list[Path]:
    """The archive that a start with these options leaves at its end."""
    return [Path(word.partition("=")[2]) for word in options.split() if "ArchiveClasses" in word]


def test_of_several_runners_one_leaves_the_archive_and_the_next_ones_use_it(
    java: str, tmp_path: Path
) -> None:
    (fresh,) = promised(java_options(java, tmp_path))
    beside = java_options(java, tmp_path)
    assert promised(beside) == []
    assert "SharedArchiveFile" not in beside
    fresh.write_text("classes")
    keep_archive(java, ended_well=True)
    assert f"-XX:SharedArchiveFile={fresh.with_suffix('.jsa')}" in java_options(java, tmp_path)
    assert not fresh.exists()


def test_what_a_killed_runner_left_half_written_is_removed(java: str, tmp_path: Path) -> None:
    (fresh,) = promised(java_options(java, tmp_path))
    shutil.rmtree(fresh.parent)
    fresh.parent.mkdir()
    left = fresh.with_suffix(".1")
    left.write_text("half of the classes")
    assert promised(java_options(java, tmp_path)) == [fresh]
    assert not left.exists()


def test_a_runner_that_starts_meanwhile_leaves_alone_what_is_made_beforehand(
    java: str, tmp_path: Path
) -> None:
    (fresh,) = promised(java_options(java, tmp_path, leaves_archive=True))
    fresh.write_text("half of the classes")
    assert promised(java_options(java, tmp_path)) == []
    assert fresh.exists()


def test_a_spark_that_is_installed_again_has_an_archive_of_its_own(
    java: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "jars" / "spark-core.jar"
    jar.parent.mkdir()
    jar.touch()
    monkeypatch.setattr(module, "SPARK_HOME", tmp_path)
    before = module.archive_of(java)
    assert module.archive_of(java) == before
    os.utime(jar, (1, 1))
    assert module.archive_of(java) != before


def test_a_cache_that_cannot_be_written_to_costs_nothing_but_time(
    java: str, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("no directory")
    options = java_options(java, tmp_path)
    assert promised(options) == []
    assert "SharedArchiveFile" not in options


def test_an_archive_made_beforehand_is_used_and_not_made_again(tmp_path: Path) -> None:
    archive = class_data_archive()
    assert archive is not None
    before = archive.stat().st_ino
    assert make_archive() == archive
    assert archive.stat().st_ino == before
    found = shutil.which("java")
    assert found is not None
    assert read_option(archive) in java_options(found, tmp_path).split()


def test_a_runner_with_settings_of_an_operators_uses_the_archive(tmp_path: Path) -> None:
    archive = class_data_archive()
    assert archive is not None

    def is_used(class_path: str) -> bool:
        """Java ends at once if it was told to use an archive that does not fit."""
        command = ["java", "-XX:+UseSerialGC", "-Xshare:on", read_option(archive)]
        done = subprocess.run(
            [*command, "-cp", class_path, "-version"], capture_output=True, check=False, timeout=60
        )
        return done.returncode == 0

    environment = written(tmp_path / "conf", "spark.ui.enabled false\n")
    directory = environment["SPARK_CONF_DIR"]
    assert is_used(":".join(spark_jars()))
    assert not is_used(":".join([directory, *spark_jars()]))
    found = class_path_of({}, {**environment, "HADOOP_CONF_DIR": "/hadoop"})
    assert found == ":".join([*spark_jars(), directory, "/hadoop"])
    assert is_used(found)
    assert java_options(check_java(), tmp_path, class_path=found).endswith(f" -cp {found}")


def test_classes_that_an_operator_puts_first_stay_there(tmp_path: Path) -> None:
    environment = written(tmp_path, "spark.ui.enabled false\n")
    assert class_path_of({}, environment)
    assert class_path_of({}, {}) == ""
    assert class_path_of({"spark.driver.extraClassPath": "/a.jar"}, environment) == ""
    assert class_path_of({}, {**environment, "SPARK_HOME": "/opt/spark"}) == ""
    (tmp_path / "spark-env.sh").write_text("SPARK_DIST_CLASSPATH=/a.jar\n")
    assert class_path_of({}, environment) == ""
