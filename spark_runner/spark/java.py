"""Spark's Java: lookup, options for a small and quick JVM, and the class-data archive."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import pyspark

from mirrors.domain.errors import UnderstudyError

MAX_ARCHIVES = 3
RECENT_S = 3600.0
_NAME = re.compile(r"(.+-[0-9a-f]{16})\.(?:jsa|lock|\d+)")


def mark_used(archive: Path) -> None:
    """Set the time of the last use."""
    with contextlib.suppress(OSError):
        os.utime(archive)


def prune(archive: Path, now: float) -> None:
    """Keep this archive and the last used others of its kind. Delete leftovers of failed starts."""
    kind = archive.name.partition("-")[0]
    families: defaultdict[str, dict[Path, float]] = defaultdict(dict)
    for path in archive.parent.glob(f"{kind}-*"):
        found = _NAME.fullmatch(path.name)
        if found and found[1] != archive.stem:
            with contextlib.suppress(OSError):
                families[found[1]][path] = path.stat().st_mtime
    whole = sorted(
        (used, stem)
        for stem, family in families.items()
        for path, used in family.items()
        if path.suffix == ".jsa"
    )
    stay = {stem for _, stem in whole[-MAX_ARCHIVES:]}
    for stem, family in families.items():
        kept = {".jsa", ".lock"} if stem in stay else set()
        old = [path for path, used in family.items() if now - used > RECENT_S]
        _remove(archive.with_name(f"{stem}.lock"), [p for p in old if p.suffix not in kept])


def _remove(lock: Path, paths: list[Path]) -> None:
    """Delete unless another process writes the archive. The lock file is deleted last, while
    held."""
    if not paths:
        return
    with contextlib.suppress(OSError), lock.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for path in sorted(paths, key=lambda path: path == lock):
            path.unlink(missing_ok=True)
        if not lock.with_suffix(".jsa").exists():
            lock.unlink(missing_ok=True)


MIN_JAVA = 17
_LONGEST_TEMPORARY = 60
JVM = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    # Otherwise Java fills 100 MB of young generation before it collects.
    "-Xms64m",
    "-Xmn24m",
    "-XX:ReservedCodeCacheSize=64m",
    # Otherwise Java wakes up twenty times a second for a file that only local tools read.
    "-XX:-UsePerfData",
    "-XX:MinHeapFreeRatio=10",
    "-XX:MaxHeapFreeRatio=25",
    "-Xss512k",
    "-Xshare:auto",
    "-Xlog:disable",
    "-Xlog:all=off",
)
# As Spark's launcher writes it into the class path.
SPARK_HOME = Path(pyspark.__file__).resolve().parent
# Parts of the class path, in the order of Spark's launcher but for the first.
_BEHIND_JARS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
# Locks that this process holds until it ends.
_locks: list[IO[str]] = []


class JavaMissing(UnderstudyError):
    code = "no_java"


def check_java() -> str:
    """The java that Spark will start. Raises JavaMissing with the cause."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    advice = f"Install Java {MIN_JAVA} or later, or set JAVA_HOME."
    if java is None or not os.access(java, os.X_OK):
        where = f"JAVA_HOME ({home}) has no bin/java" if home else "there is no java in the PATH"
        raise JavaMissing(f"Spark needs Java and {where}. {advice}")
    try:
        answer = subprocess.run(  # noqa: S603 (java itself)
            [java, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        raise JavaMissing(f"{java} does not run. {advice}") from None
    found = re.search(r'version "(\d+)', answer.stderr)
    if found is None or int(found[1]) < MIN_JAVA:
        version = found[1] if found else "an unknown version"
        raise JavaMissing(f"Spark needs Java {MIN_JAVA}; {java} is {version}. {advice}")
    return java


def java_options(
    java: str,
    directory: Path,
    *,
    class_path: str = "",
    leaves_archive: bool = False,
) -> str:
    """Options of the driver's Java. The runner's directory holds its log.

    `class_path`: instead of the one that Spark's launcher writes; empty to keep that.
    `leaves_archive`: write one whatever other processes are to do (`class_data_archive`).
    """
    if leaves_archive:
        # Held or not: it is written. A runner that starts meanwhile leaves it alone if it is held.
        _may_write(archive_of(java))
    archive = _write_option(java) if leaves_archive else _archive_option(java)
    options = [*JVM, *archive, f"-Dlog4j2.configurationFile={_log4j(directory)}"]
    found = " ".join(map(_quoted, [*options, *_temporary()]))
    # The launcher's own comes before these options, and Java uses the last one.
    return f"{found} -cp {_quoted(class_path)}" if class_path else found


def spark_jars() -> list[str]:
    """The class path of Spark's own classes, in the order in which its launcher writes them."""
    jars = SPARK_HOME / "jars"
    return [*map(str, jars.glob("slf4j-api-*.jar")), f"{jars}/*"]


def class_path_of(chosen: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Spark's jars, then the operator's directories; empty if the launcher's order is to stay.

    - Java uses an archive only if the class path begins as it did when the archive was written.
      Spark's launcher puts SPARK_CONF_DIR first. No jar of Spark has a file of the names that
      Spark and Hadoop look for there, so the order has no other effect.
    - `chosen` (the operator's settings) or a `spark-env.sh` may put other classes first.
    """
    directory = environment.get("SPARK_CONF_DIR")
    if not directory or "spark.driver.extraClassPath" in chosen:
        return ""
    home = Path(environment.get("SPARK_HOME") or SPARK_HOME).resolve()
    if home != SPARK_HOME or Path(directory, "spark-env.sh").exists():
        return ""
    behind = (environment.get(name, "") for name in _BEHIND_JARS)
    return ":".join([*spark_jars(), *filter(None, behind)])


def keep_archive(java: str, *, ended_well: bool) -> None:
    """Keep the class-data archive that Java wrote at its end, for the next start."""
    fresh = _fresh_archive(java)
    if ended_well and fresh.exists():
        fresh.rename(archive_of(java))
        prune(archive_of(java), time.time())
    fresh.unlink(missing_ok=True)


def _quoted(option: str) -> str:
    """Spark splits the options at spaces outside double quotes."""
    return f'"{option}"' if re.search(r"\s", option) else option


def _temporary() -> list[str]:
    """Java's temporary directory is Python's, so that one TMPDIR can be cleaned after a kill.

    The sockets to the workers are there too. A socket's path has at most 107 bytes.
    """
    folder = tempfile.gettempdir()
    fits = len(os.fsencode(folder)) <= _LONGEST_TEMPORARY and not re.search(r"\s", folder)
    return [f"-Djava.io.tmpdir={folder}"] if fits else []


def cache_directory() -> Path:
    chosen = os.environ.get("UNDERSTUDY_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(chosen) if chosen else Path(base) / "understudy"


def archive_of(java: str) -> Path:
    """One archive for each Java and each installation of Spark: Java ignores one of other jars.

    Whole seconds of the jars, as Java compares them; an image keeps no more.
    """
    jars = sorted((SPARK_HOME / "jars").glob("*.jar"))
    facts = f"{Path(java).resolve()} {Path(java).stat().st_mtime_ns} {pyspark.__version__}"
    facts += f" {SPARK_HOME} {[int(path.stat().st_mtime) for path in jars]}"
    digest = hashlib.sha256(facts.encode()).hexdigest()[:16]
    return cache_directory() / f"spark-{pyspark.__version__}-{digest}.jsa"


def _fresh_archive(java: str) -> Path:
    return archive_of(java).with_suffix(f".{os.getpid()}")


def _archive_option(java: str) -> list[str]:
    """Use the archive. If there is none, the first runner writes one when it ends.

    Only the first one: writing takes seconds of CPU, also when the runner was killed.
    """
    archive = archive_of(java)
    if archive.exists():
        mark_used(archive)
        return [read_option(archive)]
    return _write_option(java) if _may_write(archive) else []


def _may_write(archive: Path) -> bool:
    """Whether this process is the one that writes it, until this process ends."""
    try:
        archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = archive.with_suffix(".lock").open("w")
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return False
    _locks.append(lock)
    # The process that was to write one was killed. Nobody uses what it may have left.
    for left in archive.parent.glob(f"{archive.stem}.[0-9]*"):
        with contextlib.suppress(OSError):
            left.unlink()
    return True


def _write_option(java: str) -> list[str]:
    return [f"-XX:ArchiveClassesAtExit={_fresh_archive(java)}"]


def read_option(archive: Path) -> str:
    return f"-XX:SharedArchiveFile={archive}"


def _log4j(directory: Path) -> Path:
    """Spark logs only errors, into a small rotating file."""
    path = directory / "log4j2.properties"
    log = directory / "spark.log"
    path.write_text(
        "\n".join(
            (
                "rootLogger.level = error",
                "rootLogger.appenderRef.file.ref = file",
                "appender.file.type = RollingFile",
                "appender.file.name = file",
                f"appender.file.fileName = {log}",
                f"appender.file.filePattern = {log}.%i",
                "appender.file.layout.type = PatternLayout",
                "appender.file.layout.pattern = %d{ISO8601} %p %c{1}: %m%n%ex",
                "appender.file.policies.type = Policies",
                "appender.file.policies.size.type = SizeBasedTriggeringPolicy",
                "appender.file.policies.size.size = 2MB",
                "appender.file.strategy.type = DefaultRolloverStrategy",
                "appender.file.strategy.max = 2",
                "",
            )
        ),
        encoding="utf-8",
    )
    return path
