"""One Spark task of a comparison: ranges in, digests and differences out. It writes nothing."""

from __future__ import annotations

import dataclasses
import json
import logging
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

from mirrors.domain.comparison.range_requests import ComparedRange, RangePair
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.domain.transforms.rules import rule_number
from spark_runner.comparison.evaluated_reader import EvaluatedReader
from spark_runner.comparison.last_values import compare_last_values
from spark_runner.comparison.range_digests import Pace, compare_range
from spark_runner.comparison.range_reader import PATIENCE_S, RangeReader, Reader
from spark_runner.engine.transforms.evaluation import Evaluator
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.task import prepare_worker

if TYPE_CHECKING:
    # It imports pyarrow.
    from spark_runner.sql.user_functions import UserCode

log = logging.getLogger("spark_runner.comparison")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RangeWork:
    """What one task does. `bytes_per_second`: its share of the budget. `seconds`: then it ends."""

    source: ClusterSpec
    target: ClusterSpec
    properties: dict[str, str]
    pair: RangePair
    bytes_per_second: float | None
    seconds: float

    @property
    def spec(self) -> FlowSpec:
        return FlowSpec(source=self.source, target=self.target, properties=self.properties)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw: dict[str, Any] = json.loads(text)
        source, target = ClusterSpec(**raw.pop("source")), ClusterSpec(**raw.pop("target"))
        return cls(source=source, target=target, pair=RangePair.from_dict(raw.pop("pair")), **raw)


def compare(texts: Iterable[str]) -> Iterator[str]:
    """The function that Spark runs: RangeWork as JSON in, ComparedRange as JSON out."""
    prepare_worker()
    for text in texts:
        yield json.dumps(run(RangeWork.from_json(text)).to_dict())


def compare_with_rules(
    text: str, _: Iterable[Any], user_code: UserCode | None = None
) -> Iterator[Any]:
    """The first worker of a job with rules: the source's records go through Spark."""
    # pyarrow takes memory that tasks without rules do not need.
    from spark_runner.sql.evaluator import ArrowEvaluator  # noqa: PLC0415
    from spark_runner.sql.workers import serve  # noqa: PLC0415

    work = RangeWork.from_json(text)

    def compare_evaluated(evaluator: ArrowEvaluator) -> str:
        return json.dumps(run(work, evaluator).to_dict())

    def failed(message: str, _: str) -> str:
        return json.dumps(_refused(work.pair, message).to_dict())

    yield from serve(work.spec, compare_evaluated, failed, user_code)


def run(work: RangeWork, evaluator: Evaluator | None = None) -> ComparedRange:
    """Compare one range. Never raises: what cannot be read is in the result.

    `evaluator` evaluates the rule of the topic, if it has one.
    """
    pair, settings = work.pair, work.spec.settings
    number = rule_number(pair.topic, settings.transforms)
    if number is not None and evaluator is None:
        return _refused(pair, f"Internal error: rule {number} has no evaluator.")
    if number is not None and evaluator is not None and (number - 1) in evaluator.refused:
        return _refused(pair, evaluator.refused[number - 1])
    is_committed = settings.isolation_level == "read_committed"
    clusters: list[ClusterClient] = []
    try:
        for cluster in (work.source, work.target):
            clusters.append(ClusterClient(cluster))
            clusters[-1].open(time.monotonic() + PATIENCE_S)

        def open_readers(some: RangePair) -> tuple[Reader, Reader]:
            here, there = (some.topic, some.partition), (some.remote_topic, some.partition)
            one, two = some.source, some.target
            source: Reader = RangeReader(clusters[0], here, one[0], one[-1], committed=is_committed)
            if evaluator is not None and number is not None:
                source = EvaluatedReader(
                    source, evaluator, work.spec, number - 1, here, some.remote_topic
                )
            return source, RangeReader(clusters[1], there, two[0], two[-1], committed=True)

        pace = Pace(work.bytes_per_second)
        if pair.by_key:
            return compare_last_values(pair, open_readers, pace)
        return compare_range(pair, open_readers, pace, work.seconds)
    except UnderstudyError as error:
        return _refused(pair, error.message)
    except Exception as error:
        where = f"{pair.topic}-{pair.partition} from offset {pair.source[0]} on"
        log.exception("Comparing %s", where)
        reason = f"Internal error while {where} was compared: {type(error).__name__}: {error}."
        return _refused(pair, reason)
    finally:
        for client in clusters:
            client.close()


def _refused(pair: RangePair, reason: str) -> ComparedRange:
    return ComparedRange(part=pair.part, first=pair.source[0], refusal=reason)
