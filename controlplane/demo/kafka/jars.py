"""Kafka's published jars: resolved once with the Ivy inside pyspark, verified, kept in a cache.

The committed list `<set>.sha256` is the truth: a jar that is missing, extra or different from it
is never run. The cache is outside the checkout, so a fresh clone starts warm.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from controlplane.demo.errors import DemoError
from controlplane.demo.processes.java import find_java, plain_environment

VERSION = "4.3.1"
ATTEMPTS = 4
DEADLINE = 240.0
NEEDED_BYTES = 250_000_000
_MARK = "verified"

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class JarSet:
    """Modules (organisation, name, revision) with all they need, and the list of what must come.

    `alone`: the modules only; what they need is on the class path from another set.
    """

    name: str
    title: str
    modules: tuple[tuple[str, str, str], ...]
    checksums: Path
    alone: bool = False

    @property
    def wanted(self) -> dict[str, str]:
        lines = self.checksums.read_text().splitlines()
        pairs = (line.split() for line in lines if line.strip())
        return {name: digest for digest, name in pairs}

    @property
    def list_digest(self) -> str:
        return hashlib.sha256(self.checksums.read_bytes()).hexdigest()


BROKER = JarSet(
    name=f"kafka-{VERSION}",
    title=f"Kafka {VERSION}",
    modules=(
        ("org.apache.kafka", "kafka_2.13", VERSION),
        # Without a binding for its logging facade a broker dies without a word.
        ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    ),
    checksums=Path(__file__).with_name(f"kafka-{VERSION}.sha256"),
)


def cache_directory(jars: JarSet = BROKER) -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(root) / "understudy" / jars.name


def kafka_jars(
    say: Say = lambda _: None, *, cache: Path | None = None, jars: JarSet = BROKER
) -> Path:
    """The directory that holds exactly the verified jars; resolves them when it has to."""
    target = cache or cache_directory(jars)
    if _is_complete(target, jars):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(target.with_name(target.name + ".lock"), say):
            if not _is_complete(target, jars):
                _resolve_into(target, say, jars)
    except OSError as error:
        raise DemoError(
            f"The jars of {jars.title} cannot be kept in {target}: {error.strerror or error}. "
            "Free some disk, or point XDG_CACHE_HOME at a directory with 250 MB to spare.",
            code="cache_unusable",
        ) from error
    return target


def differences(directory: Path, jars: JarSet = BROKER) -> list[str]:
    """What is wrong with the jars in `directory`; empty when they are exactly the wanted ones."""
    wanted = jars.wanted
    present = {path.name: path for path in directory.glob("*.jar")}
    wrong = [f"{name} is missing" for name in sorted(wanted.keys() - present.keys())]
    wrong += [f"{name} is not wanted" for name in sorted(present.keys() - wanted.keys())]
    for name in sorted(wanted.keys() & present.keys()):
        if hashlib.sha256(present[name].read_bytes()).hexdigest() != wanted[name]:
            wrong.append(f"{name} has another checksum")
    return wrong


def _is_complete(directory: Path, jars: JarSet) -> bool:
    # The mark holds the digest of the list it was verified against, so that a warm start reads 64
    # bytes instead of 44 MB; sizes would not notice a swapped jar, but then nor does anything else
    # in a directory that its owner alone may write.
    try:
        marked = (directory / _MARK).read_text()
    except OSError:
        return False
    names = {path.name for path in directory.glob("*.jar")}
    return marked == jars.list_digest and names == set(jars.wanted)


@contextlib.contextmanager
def _only_one(lock: Path, say: Say) -> Iterator[None]:
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another start is fetching Kafka's jars; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _resolve_into(target: Path, say: Say, jars: JarSet) -> None:
    _ensure_disk(target.parent, jars)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        reason = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                say(f"{reason}; trying again ({attempt + 1} of {ATTEMPTS})")
                time.sleep(2.0**attempt)
            reason = _resolve_once(work, jars)
            if not reason:
                break
        else:
            raise DemoError(
                f"{jars.title} could not be fetched: {reason}. Check that Maven Central can be "
                "reached from here (a proxy is taken from HTTPS_PROXY, an Ivy settings file from "
                "UNDERSTUDY_IVY_SETTINGS) and try again.",
                code="kafka_unfetched",
            )
        (work / "jars" / _MARK).write_text(jars.list_digest)
        if target.exists():
            shutil.rmtree(target)
        (work / "jars").rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _ensure_disk(directory: Path, jars: JarSet) -> None:
    free = shutil.disk_usage(directory).free
    if free < NEEDED_BYTES:
        raise DemoError(
            f"The disk under {directory} has {free // 1_000_000:,} MB free, and to fetch "
            f"{jars.title} takes {NEEDED_BYTES // 1_000_000:,}. Free some, or point XDG_CACHE_HOME "
            "at another disk.",
            code="disk_full",
        )


def _resolve_once(work: Path, jars: JarSet) -> str:
    """One try; returns why it failed, or nothing. Ivy's own cache keeps what already arrived."""
    shutil.rmtree(work / "jars", ignore_errors=True)
    output = ""
    for module in jars.modules:
        try:
            done = subprocess.run(
                _ivy_command(work, module, jars),
                capture_output=True,
                text=True,
                timeout=DEADLINE,
                env=_ivy_environment(),
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {DEADLINE:.0f} s"
        output += done.stdout + done.stderr
    if wrong := differences(work / "jars", jars):
        if any("checksum" in sentence for sentence in wrong):
            shutil.rmtree(work / "ivy", ignore_errors=True)
        more = f" and {len(wrong) - 1} more like it" if len(wrong) > 1 else ""
        return f"{wrong[0]}{more}{_last_complaint(output)}"
    return ""


def _ivy_command(work: Path, module: tuple[str, str, str], jars: JarSet) -> list[str]:
    command = [find_java(), *_proxy_options(), "-cp", f"{_spark_jars()}/*", "org.apache.ivy.Main"]
    if settings := os.environ.get("UNDERSTUDY_IVY_SETTINGS"):
        command += ["-settings", settings]
    if jars.alone:
        command.append("-notransitive")
    command += ["-cache", str(work / "ivy"), "-confs", "default", "-dependency", *module]
    return [*command, "-retrieve", str(work / "jars" / "[artifact]-[revision].[ext]")]


def _ivy_environment() -> dict[str, str]:
    # Ivy alone may need the options with which this machine's Java reaches the outside.
    options = os.environ.get("JAVA_TOOL_OPTIONS")
    return plain_environment({"JAVA_TOOL_OPTIONS": options} if options else None)


def _last_complaint(output: str) -> str:
    told = [line.strip() for line in output.splitlines() if "Exception" in line or "ERROR" in line]
    return f" ({told[-1][:160]})" if told else ""


def _spark_jars() -> Path:
    # Found, not imported: importing pyspark costs a second and the demo needs only its Ivy.
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise DemoError("pyspark is not installed here. Run `make runtime` and try again.")
    return Path(spec.origin).parent / "jars"


def _proxy_options() -> list[str]:
    proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    if not proxy:
        return []
    parts = urlsplit(proxy if "//" in proxy else f"http://{proxy}")
    return [f"-Dhttps.proxyHost={parts.hostname}", f"-Dhttps.proxyPort={parts.port or 3128}"]
