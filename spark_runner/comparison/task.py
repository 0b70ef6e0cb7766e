"""One Spark task of a comparison: ranges in, digests and differences out. It writes nothing."""

from __future__ import annotations

import dataclasses
import json
import logging
import time
from collections.abc import Iterable, Iterator
from typing import Any, Self

from mirrors.domain.comparison.range_requests import ComparedRange, RangePair
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import ClusterSpec, FlowSpec
from spark_runner.comparison.range_digests import Pace, compare_range
from spark_runner.comparison.range_reader import PATIENCE_S, RangeReader
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.task import prepare_worker

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


def run(work: RangeWork) -> ComparedRange:
    """Compare one range. Never raises: what cannot be read is in the result."""
    pair = work.pair
    spec = FlowSpec(source=work.source, target=work.target, properties=work.properties)
    is_committed = spec.settings.isolation_level == "read_committed"
    clusters: list[ClusterClient] = []
    try:
        for cluster in (work.source, work.target):
            clusters.append(ClusterClient(cluster))
            clusters[-1].open(time.monotonic() + PATIENCE_S)

        def open_readers(some: RangePair) -> tuple[RangeReader, RangeReader]:
            here, there = (some.topic, some.partition), (some.remote_topic, some.partition)
            bounds = some.source, some.target
            return (
                RangeReader(clusters[0], here, bounds[0][0], bounds[0][-1], committed=is_committed),
                RangeReader(clusters[1], there, bounds[1][0], bounds[1][-1], committed=True),
            )

        return compare_range(pair, open_readers, Pace(work.bytes_per_second), work.seconds)
    except UnderstudyError as error:
        return ComparedRange(part=pair.part, first=pair.source[0], refusal=error.message)
    except Exception as error:
        where = f"{pair.topic}-{pair.partition} from offset {pair.source[0]} on"
        log.exception("Comparing %s", where)
        reason = f"Internal error while {where} was compared: {type(error).__name__}: {error}."
        return ComparedRange(part=pair.part, first=pair.source[0], refusal=reason)
    finally:
        for client in clusters:
            client.close()
