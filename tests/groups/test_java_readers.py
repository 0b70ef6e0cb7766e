"""Java's own classes of MirrorMaker 2 4.3.1, unchanged, read what we write."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane.bench.systems.mirror_maker import MIRROR
from controlplane.demo.kafka.jars import kafka_jars
from controlplane.demo.processes.java import find_java, plain_environment
from mirrors.services.groups.mm2_checkpoints import emit_checkpoints
from mirrors.services.groups.mm2_offset_syncs import write_offset_syncs
from tests.groups.world import World
from tests.wire.world import unique

MakeWorld = Callable[..., World]
PROGRAM = Path(__file__).with_name("AskMirror.java")


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of the compiled program: in MM2's own package, to see what is not public."""
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("no javac on PATH: a JDK is needed to compile the little program")
    jars, made = f"{kafka_jars(jars=MIRROR)}/*", tmp_path_factory.mktemp("classes")
    run(
        compiler,
        "-J-XX:TieredStopAtLevel=1",
        "-J-XX:+UseSerialGC",
        "-d",
        str(made),
        "-cp",
        jars,
        str(PROGRAM),
    )
    return f"{made}:{jars}"


def run(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=plain_environment()
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def ask(world: World, classes: str, *words: str) -> list[list[str]]:
    source, target = world.copy.source.spec, world.copy.target.spec
    said = run(
        find_java(),
        "-XX:TieredStopAtLevel=1",
        "-Dfile.encoding=UTF-8",
        "-Dstdout.encoding=UTF-8",
        "-Dlog4j2.level=OFF",
        "-cp",
        classes,
        "org.apache.kafka.connect.mirror.AskMirror",
        source.bootstrap_servers,
        target.bootstrap_servers,
        world.alias,
        target.alias,
        *words,
    )
    lines = (line.split("\t") for line in said.splitlines())
    return [words for mark, *words in lines if mark == "answer"]


def test_javas_clients_find_every_groups_place_as_a_scan_does(
    world: MakeWorld, classes: str
) -> None:
    stem = unique("java")
    here = world(groups=f"{stem}.*", offset_lag_max="3")
    topic = here.topic("orders")
    here.fill_badly(topic, 11, 16)
    here.copy.copy()
    truth, end = here.truth(topic), here.copy.ends()[topic, 0]
    for offset in range(end + 1):
        here.commit(f"{stem}-{offset}", topic, offset, "späße")
    here.do(emit_checkpoints)
    here.do(write_offset_syncs)
    # As a flow carries them: from its source, and what came there from a third cluster.
    third = unique("third").replace(".", "")
    beats = [f"{here.alias}.heartbeats", f"{here.alias}.{third}.heartbeats"]
    for name in beats:
        here.copy.target.make(name)
    answers = ask(here, classes, f"{stem}-5", f"{stem}.*", "source", topic, str(end))
    exact = {
        upstream: min(
            (down for up, down in truth.items() if up >= upstream), default=max(truth.values()) + 1
        )
        for upstream in range(end + 1)
    }
    remote = f"{here.remote(topic)}-0"
    assert [row for kind, *row in answers if kind == "one"] == [
        [f"{stem}-5", remote, str(exact[5]), "späße"]
    ]
    assert sorted(row for kind, *row in answers if kind == "all") == sorted(
        [f"{stem}-{upstream}", remote, str(down), "späße"] for upstream, down in exact.items()
    )
    here.delete(here.copy.target, *beats)
    assert ["checkpoints", f"{here.alias}.checkpoints.internal"] in answers
    assert {name for kind, name, *_ in answers if kind == "heartbeats"} >= set(beats)
    assert {name for kind, name, *_ in answers if kind == "remote"} == {here.remote(topic), *beats}
    hops = {alias: int(far) for kind, alias, *rest in answers if kind == "hops" for far in rest}
    assert (hops[here.alias], hops[third]) == (1, 2)
    guesses = {int(up): down for kind, up, *rest in answers if kind == "sync" for down in rest}
    assert len(guesses) == end + 1
    for upstream, guess in guesses.items():
        assert guess == "none" or int(guess) <= exact[upstream]
    assert int(guesses[max(truth)]) == exact[max(truth)]
