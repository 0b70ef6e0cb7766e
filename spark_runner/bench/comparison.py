"""`python -m spark_runner.bench.comparison SOURCE TARGET`: comparing in Spark and in a worker.

Fills a topic, copies it, and compares both sides alternately: as a runner does, in a Spark of its
own, and as a worker does, in one process through librdkafka. Both compute the same digests. The
output is a JSON object for each run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mirrors import launcher
from mirrors.domain.comparison.digests import SideDigest, chunk_boundaries, compare_chunks
from mirrors.domain.comparison.range_requests import (
    ComparisonRequest,
    ComparisonResponse,
    RangePair,
)
from mirrors.domain.comparison.record_content import content_of
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.protocol.list_offsets import list_offsets
from mirrors.kafka.reading.comparison import RangeReader
from spark_runner.bench import __main__ as copying
from spark_runner.bench import workload
from spark_runner.comparison.requests import RangeComparisons
from spark_runner.engine.epoch import RawCopier
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.native import loader
from spark_runner.spark import context
from spark_runner.spark.java import check_java
from spark_runner.spark.jobs import SparkJobs
from spark_runner.spark.slots import Slots

_UP_S = 60.0
# As in a worker's comparison: partitions that are read together, and chunks of each at once.
_AT_ONCE, _CHUNKS = 8, 32
_MOST_BYTES = 1 << 50


def main() -> None:
    args = _parse()
    source = ClusterClient(ClusterSpec(alias="source", bootstrap_servers=args.source))
    target = ClusterClient(ClusterSpec(alias="target", bootstrap_servers=args.target))
    source.open(time.monotonic() + _UP_S)
    target.open(time.monotonic() + _UP_S)
    args.topic = f"bench.{uuid.uuid4().hex[:8]}"
    view = copying.create_topic(source, args.topic, args.partitions)
    workload.produce_batches(source, view, copying.shape_of(args))
    remote = ""
    try:
        request, remote = _copied(args, source, target)
        with _spark() as comparisons:
            for _ in range(args.repeats):
                for way, compare in (("worker", _in_worker), ("spark", comparisons)):
                    began = time.monotonic()
                    size, differ = compare(request)
                    _print(way, args, size, differ, time.monotonic() - began)
    finally:
        copying.delete_topics(source, args.topic)
        if remote:
            copying.delete_topics(target, remote)


def _copied(
    args: argparse.Namespace, source: ClusterClient, target: ClusterClient
) -> tuple[ComparisonRequest, str]:
    """The ranges of a copy. Without transactions both sides have the same offsets."""
    work, view, remote = copying.work_for(args, source, target)
    wanted = [(view.name, part, leader) for part, leader in view.leaders.items()]
    ends = list_offsets(source, wanted, deadline=time.monotonic() + _UP_S)
    watch = copying.BenchChannel(sum(row.offset for row in ends.values()))
    RawCopier().run(work, watch)  # type: ignore[arg-type]
    cuts = {tp: tuple(chunk_boundaries(0, row.offset, 1 << 40)) for tp, row in ends.items()}
    pairs = tuple(
        RangePair(
            part=number,
            topic=tp[0],
            partition=tp[1],
            remote_topic=remote.name,
            keeps_time=True,
            source=cuts[tp],
            target=cuts[tp],
        )
        for number, tp in enumerate(sorted(cuts))
    )
    request = ComparisonRequest(
        comparison=1,
        number=1,
        flow=1,
        name="bench",
        source=work.source,
        target=work.target,
        properties={},
        pairs=pairs,
        most_bytes=_MOST_BYTES,
    )
    return request, remote.name


def _in_worker(request: ComparisonRequest) -> tuple[int, int]:
    """Bytes of records of both sides, and the chunks that differ."""
    size = differ = 0
    for at in range(0, len(request.pairs), _AT_ONCE):
        some = request.pairs[at : at + _AT_ONCE]
        for first in range(0, max(pair.chunks for pair in some), _CHUNKS):
            ranges = [
                pair.between(first, min(first + _CHUNKS, pair.chunks))
                for pair in some
                if first < pair.chunks
            ]
            sides = [
                {(pair.topic, pair.partition): SideDigest(pair.source) for pair in ranges},
                {(pair.remote_topic, pair.partition): SideDigest(pair.target) for pair in ranges},
            ]
            size += _read(request, sides)
            for one, two in zip(*(side.values() for side in sides), strict=True):
                differ += len(compare_chunks(one, two).ranges)
    return size, differ


def _read(request: ComparisonRequest, sides: list[dict[tuple[str, int], SideDigest]]) -> int:
    with contextlib.ExitStack() as stack:
        readers = [
            stack.enter_context(
                RangeReader(
                    spec,
                    {
                        tp: (digest.boundaries[0], digest.boundaries[-1])
                        for tp, digest in side.items()
                    },
                )
            )
            for spec, side in zip((request.source, request.target), sides, strict=True)
        ]
        while any(reader.open for reader in readers):
            for reader, side in zip(readers, sides, strict=True):
                for tp, part in reader.read().items():
                    for record in part.records:
                        side[tp].add(record.offset, content_of(record, with_timestamp=True))
                    side[tp].reach(part.reached)
        return sum(reader.bytes for reader in readers)


@contextlib.contextmanager
def _spark() -> Iterator[Any]:
    """A function that compares as a runner does."""
    with tempfile.TemporaryDirectory() as name:
        directory, java = Path(name), check_java()
        spark = context.open_context(
            name="bench", master="local[256,4]", directory=directory, java=java
        )
        jobs = SparkJobs(spark, directory)
        jobs.warm_up()
        comparisons = RangeComparisons(directory, jobs, Slots(lambda: jobs.slots))

        def compare(request: ComparisonRequest) -> tuple[int, int]:
            launcher.COMPARISONS.write_request(directory, 1, request)
            response: ComparisonResponse | None = None
            while response is None or not response.ended:
                comparisons.poll()
                time.sleep(0.05)
                response = launcher.COMPARISONS.read_response(directory, 1)
            launcher.COMPARISONS.remove(directory, 1)
            for row in response.ranges:
                if row.refusal:
                    raise SystemExit(row.refusal)
            return (
                sum(row.bytes for row in response.ranges),
                sum(len(row.differences) for row in response.ranges),
            )

        try:
            yield compare
        finally:
            context.close_context(spark, java)


def _print(way: str, args: argparse.Namespace, size: int, differ: int, seconds: float) -> None:
    row = {
        "way": way,
        "record_bytes": args.record_bytes,
        "codec": args.codec,
        "partitions": args.partitions,
        "gb": round(size / 1e9, 3),
        "seconds": round(seconds, 2),
        "mb_s": round(size / 1e6 / seconds, 1),
        "chunks_that_differ": differ,
        "compiled": loader.is_used(),
        "load": os.getloadavg()[0],
    }
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="spark_runner.bench.comparison", description=__doc__)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--record-bytes", type=int, default=1000)
    parser.add_argument("--codec", default="lz4")
    parser.add_argument("--batch-bytes", type=int, default=62_000)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--gb", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    args.delivery, args.commit_ms, args.seconds = "at_least_once", 500, 600.0
    return args


if __name__ == "__main__":
    main()
