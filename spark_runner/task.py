"""One Spark task: connect to the driver, run the lane, return a result.

Errors are results. A task never raises for network failures, so Spark's own retry remains the last
resort.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Iterator

from mirrors.domain.errors import UnderstudyError
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.record_lane.epoch import RecordLane
from spark_runner.engine.transforms.evaluation import Evaluator
from spark_runner.ipc.messages import Figures, SliceResult, SliceWork
from spark_runner.ipc.task_channel import Channel

LANES = {"record": RecordLane, "raw": RawCopier}

log = logging.getLogger("spark_runner.task")


def copy(texts: Iterable[str]) -> Iterator[str]:
    """The function that Spark runs: SliceWork as JSON in, SliceResult as JSON out."""
    prepare_worker()
    for text in texts:
        yield run(SliceWork.from_json(text)).to_json()


def warm_up(texts: Iterable[str]) -> Iterator[str]:
    """Start a worker with everything imported, without work."""
    prepare_worker()
    return iter(texts)


def run(
    work: SliceWork,
    evaluator: Evaluator | None = None,
    on_report: Callable[[Figures], None] | None = None,
) -> SliceResult:
    """One epoch of one slice on an executor. Never raises: every error is in the result.

    `evaluator` evaluates the rules of its topics, if they have some. `on_report` also gets what is
    reported to the driver.
    """
    if work.has_rules and evaluator is None:
        return SliceResult(
            ended_because="failed",
            reason=f"Internal error in slice {work.index}: its rules have no evaluator.",
            code="defect",
        )
    try:
        channel = Channel(work, on_report)
    except (OSError, ValueError, KeyError) as error:
        return SliceResult(
            ended_because="lost_control",
            reason=f"The task cannot reach its driver at {work.control_address}: {error}.",
            code="no_driver",
        )
    try:
        lane = LANES[work.lane]() if evaluator is None else RawCopier(evaluator=evaluator)
        result: SliceResult = lane.run(work, channel)
        if result.ended_because not in ("failed", "fenced"):
            channel.release()
        return result
    except UnderstudyError as error:
        return SliceResult(ended_because="failed", reason=error.message, code=error.code)
    except Exception as error:
        log.exception("Slice %s of %s, epoch %s", work.index, work.name, work.epoch)
        reason = f"Internal error in slice {work.index}: {type(error).__name__}: {error}."
        return SliceResult(ended_because="failed", reason=reason, code="defect")
    finally:
        channel.close()


_frozen = False


def prepare_worker() -> None:
    """Once per worker: exclude imported objects from garbage collection."""
    global _frozen
    if not _frozen:
        gc.collect()
        gc.freeze()
        # Nobody rotates a worker's log file. Errors of a lane are in its result.
        logging.getLogger("mirrors.kafka").addHandler(logging.NullHandler())
        logging.getLogger("mirrors.kafka").propagate = False
        _frozen = True
