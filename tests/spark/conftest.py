"""One runner for all tests of this folder; a test that kills it leaves the restart to the next."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.demo.processes.guard import Guard
from mirrors.domain.transforms.modules import FUNCTIONS_DIR
from tests.spark.lab import Lab
from tests.spark.local_session import class_data_archive
from tests.spark.test_spark_settings import written

# A secret that rules on records may use.
MASK_VARIABLE = "UNDERSTUDY_MASK_TEST"
MASK_KEY = "the key of masks"

# User code that rules may call. `%` in a value makes `shout` fail. `nap` does what a value says:
# slow, busy, die, grow.
FUNCTIONS = """\
import os
import re
import time

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.functions import arrow_udf
from pyspark.sql.types import BinaryType, BooleanType, LongType


@arrow_udf(BinaryType())
def shout(values: pa.Array, mark: pa.Array) -> pa.Array:
    print("printed by user code")
    if any(b"%" in value for value in values.to_pylist() if value is not None):
        raise ValueError("a percent sign")
    text = pc.utf8_upper(values.cast(pa.string()))
    return pc.binary_join_element_wise(text, mark, "").cast(pa.binary())


@arrow_udf(returnType=BooleanType())
def is_wanted(values: pa.Array) -> pa.Array:
    return pc.invert(pc.match_substring(values.cast(pa.string()), "drop"))


@arrow_udf(LongType())
def nap(values: pa.Array) -> pa.Array:
    for value in values.to_pylist():
        if value == b"slow":
            time.sleep(3600)
        if value == b"busy":
            # One call into C, which no signal interrupts.
            re.match(r"(a|aa)+$", 200 * "a" + "b")
        if value == b"die":
            os._exit(3)
        if value == b"grow":
            kept = [bytes(1 << 24) for _ in range(1 << 20)]
    return pc.binary_length(values).cast(pa.int64())


@arrow_udf(LongType())
def too_few(values: pa.Array) -> pa.Array:
    return values.slice(1)


@arrow_udf(LongType())
def of_another_type(values: pa.Array) -> pa.Array:
    return values


@arrow_udf(LongType())
def listed(values: pa.Array) -> pa.Array:
    return values.to_pylist()


@arrow_udf(BooleanType())
def has_variable(names: pa.Array) -> pa.Array:
    return pa.array([name in os.environ for name in names.cast(pa.string()).to_pylist()])


@arrow_udf(LongType())
def process(values: pa.Array) -> pa.Array:
    return pa.array([os.getpid()] * len(values))
"""


@pytest.fixture(scope="session")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of user code, with the module `texts`."""
    directory = tmp_path_factory.mktemp("functions")
    (directory / "texts.py").write_text(FUNCTIONS)
    return directory


@pytest.fixture(scope="session")
def runner_env(guard: Guard, functions: Path) -> dict[str, str]:
    """Whatever happens to the tests, the guard ends what they started."""
    class_data_archive()
    added = {MASK_VARIABLE: MASK_KEY, FUNCTIONS_DIR: str(functions)}
    return {**os.environ, **guard.environment, **added}


_LAB = pytest.StashKey[Lab]()


@pytest.fixture(scope="session")
def one_lab(
    request: pytest.FixtureRequest,
    clusters: tuple[str, str],
    tmp_path_factory: pytest.TempPathFactory,
    runner_env: dict[str, str],
) -> Iterator[Lab]:
    """The same one where another folder imports this fixture, which pytest takes for another."""
    stash = request.session.stash
    if _LAB not in stash:
        stash[_LAB] = Lab(*clusters, tmp_path_factory.mktemp("runner"), runner_env)
    yield stash[_LAB]
    stash[_LAB].stop_if_it_runs()


@pytest.fixture
def lab(one_lab: Lab) -> Lab:
    one_lab.start_if_ended()
    return one_lab


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runner with two slots writes it."""
    return tmp_path_factory.mktemp("event-log") / "new"


@pytest.fixture(scope="session")
def two_slots(
    clusters: tuple[str, str],
    event_log: Path,
    tmp_path_factory: pytest.TempPathFactory,
    runner_env: dict[str, str],
) -> Iterator[Lab]:
    """A runner of two slots with Spark's pages and its event log; `small` starts it."""
    # Figures of a task that runs come with heartbeats.
    text = "spark.eventLog.compress false\nspark.executor.heartbeatInterval 5s\n"
    env = {**runner_env, **written(tmp_path_factory.mktemp("conf"), text)}
    lab = Lab(*clusters, tmp_path_factory.mktemp("small"), env)
    yield lab
    lab.stop_if_it_runs()


@pytest.fixture
def small(two_slots: Lab, event_log: Path) -> Lab:
    two_slots.start_if_ended("local[2,4]", ui=True, event_log=str(event_log))
    return two_slots
