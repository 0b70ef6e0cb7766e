"""What one Spark task does: connect to the driver, choose the lane, copy, answer with a result.

Errors are results: a task never raises for what can happen in a network, so that Spark's own
retry stays what it should be, the last net.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterable, Iterator

from mirrors.domain.errors import UnderstudyError
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.record_lane.epoch import RecordLane
from spark_runner.ipc.messages import SliceResult, SliceWork
from spark_runner.ipc.task_channel import Channel

LANES = {"record": RecordLane, "raw": RawCopier}

log = logging.getLogger("spark_runner.task")


def copy(texts: Iterable[str]) -> Iterator[str]:
    """The function that Spark ships: one SliceWork in, one SliceResult out, both as JSON."""
    _freeze()
    for text in texts:
        yield run(SliceWork.from_json(text)).to_json()


def warm_up(texts: Iterable[str]) -> Iterator[str]:
    """For a worker that has nothing to do yet: be there, with everything imported."""
    _freeze()
    return iter(texts)


def run(work: SliceWork) -> SliceResult:
    """One epoch of one slice on an executor. Raises nothing: whatever happens is in the result."""
    try:
        channel = Channel(work)
    except (OSError, ValueError, KeyError) as error:
        return SliceResult(
            ended_because="lost_control",
            reason=f"The task could not reach its driver at {work.control_address}: {error}.",
            code="no_driver",
        )
    try:
        result: SliceResult = LANES[work.lane]().run(work, channel)
        return result
    except UnderstudyError as error:
        return SliceResult(ended_because="failed", reason=error.message, code=error.code)
    except Exception as error:
        log.exception("Slice %s of %s, epoch %s", work.index, work.name, work.epoch)
        reason = f"Slice {work.index} met a defect of ours: {type(error).__name__}: {error}."
        return SliceResult(ended_because="failed", reason=reason, code="defect")
    finally:
        channel.close()


_frozen = False


def _freeze() -> None:
    """Once per worker: what was imported never has to be looked at by the collector again."""
    global _frozen
    if not _frozen:
        gc.collect()
        gc.freeze()
        # A worker's words end in a file that nobody rotates: what a lane meets is in its result.
        logging.getLogger("mirrors.kafka").addHandler(logging.NullHandler())
        logging.getLogger("mirrors.kafka").propagate = False
        _frozen = True
