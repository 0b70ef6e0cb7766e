"""`python -m spark_runner.bench SOURCE TARGET`: cost of the raw lane without Spark, as JSON.

Fills a topic on the source, copies it in a separate process, and compares both sides by digest. CPU
seconds are user and system time of the copying process, from its start to its last commit.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import cProfile
import json
import os
import pstats
import resource
import subprocess
import sys
import time
import uuid
from typing import Any

from mirrors.domain.offsets.runs import runs_topic
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.kafka.protocol.list_offsets import list_offsets
from mirrors.kafka.protocol.metadata import TopicView, id_text
from spark_runner.bench import workload
from spark_runner.bench.workload import Shape
from spark_runner.engine.epoch import RawCopier
from spark_runner.ipc.messages import Figures, PartitionWork, SliceWork
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.positions.topic import POSITIONS_CONFIGS

_UP_S = 60.0


class BenchChannel:
    """The driver's end of the channel: gives the order to end, and measures time."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._reported_at = 0.0
        self._copied = 0
        self.began = 0.0
        self.cpu_began = (0.0, 0.0)
        self.first: float | None = None

    def wait_for_turn(self, deadline_s: float) -> bool:
        self.began, self.cpu_began = time.monotonic(), cpu_seconds()
        return True

    def order(self) -> str | None:
        return "stop" if self._copied >= self._records else None

    def share(self, first: int | None) -> int | None:
        return first

    def due(self, *, moved: bool = True) -> bool:
        return time.monotonic() - self._reported_at >= 0.1

    def report(self, figures: Figures) -> None:
        self._reported_at = time.monotonic()
        self._copied = figures.records
        if self.first is None and figures.records:
            self.first = self._reported_at - self.began


def cpu_seconds() -> tuple[float, float]:
    """CPU time of this process, in user and kernel mode."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime, used.ru_stime


def create_topic(cluster: ClusterClient, name: str, partitions: int, **configs: str) -> TopicView:
    spec = NewTopicSpec(name=name, partitions=partitions, replication_factor=1, configs=configs)
    Admin(cluster.spec).create_topics([spec], deadline_s=_UP_S).raise_first()
    until = time.monotonic() + _UP_S
    while time.monotonic() < until:
        view = cluster.describe([name], until)[name]
        wanted = [(name, part, leader) for part, leader in view.leaders.items()]
        found = list_offsets(cluster, wanted, deadline=until)
        if len(found) == partitions and not any(row.error for row in found.values()):
            return view
        time.sleep(0.1)
    raise SystemExit(f"{name} did not come up")


def delete_topics(cluster: ClusterClient, *names: str) -> None:
    # The client must live until all requests are answered: closing it drops them.
    client = Admin(cluster.spec).client
    gone = client.delete_topics(list(names), operation_timeout=_UP_S)
    concurrent.futures.wait(gone.values(), _UP_S)


def work_for(
    args: argparse.Namespace, source: ClusterClient, target: ClusterClient
) -> tuple[SliceWork, TopicView, TopicView]:
    """A separate flow: new positions, new remote topic."""
    alias = f"bench{uuid.uuid4().hex[:8]}"
    view = source.describe([args.topic], time.monotonic() + _UP_S)[args.topic]
    if not view.leaders:
        raise SystemExit(f"{args.source} has no topic {args.topic!r}: fill one without --here")
    positions = f"mm2-positions.{alias}.internal"
    create_topic(target, positions, 1, **POSITIONS_CONFIGS)
    remote = create_topic(target, f"{alias}.{args.topic}", len(view.leaders))
    rows = tuple(
        PartitionWork(
            topic=args.topic,
            topic_id=id_text(view.topic_id),
            partition=partition,
            remote_topic=remote.name,
            remote_topic_id=id_text(remote.topic_id),
            start=0,
            remote_configs={"max.message.bytes": "1048588"},
        )
        for partition in sorted(view.leaders)
    )
    work = SliceWork(
        job=1,
        flow=1,
        generation=1,
        name=f"{alias}->target",
        index=0,
        count=1,
        epoch=1,
        deadline=int((time.time() + args.seconds) * 1000),
        lane="raw",
        source=ClusterSpec(alias=alias, bootstrap_servers=args.source),
        target=ClusterSpec(alias="target", bootstrap_servers=args.target),
        properties={"delivery": args.delivery, "commit.interval.ms": str(args.commit_ms)},
        source_cluster_id=source.cluster_id,
        target_cluster_id=target.cluster_id,
        positions_topic=positions,
        transactional_id=f"understudy.{alias}->target.0",
        partitions=rows,
    )
    return work, view, remote


def copy(args: argparse.Namespace, source: ClusterClient, target: ClusterClient) -> dict[str, Any]:
    """One measured run in this process."""
    work, view, remote = work_for(args, source, target)
    wanted = [(view.name, part, leader) for part, leader in view.leaders.items()]
    found = list_offsets(source, wanted, deadline=time.monotonic() + _UP_S)
    records = sum(row.offset for row in found.values())
    watch = BenchChannel(records)
    profile = cProfile.Profile() if args.profile else None
    if profile is not None:
        profile.enable()
    result = RawCopier().run(work, watch)  # type: ignore[arg-type]
    seconds = time.monotonic() - watch.began
    user, kernel = (now - then for now, then in zip(cpu_seconds(), watch.cpu_began, strict=True))
    if profile is not None:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
    gigabytes = records * args.record_bytes / 1e9
    digest_ok = (
        workload.is_same_content(source, view, target, remote)[0] if not args.no_digest else None
    )
    delete_topics(target, remote.name, work.positions_topic, runs_topic(work.source.alias))
    return {
        "system": "understudy raw, one process",
        "ended_because": result.ended_because,
        "reason": result.reason,
        "errors": len(result.errors),
        "record_bytes": args.record_bytes,
        "codec": args.codec,
        "partitions": len(view.leaders),
        "delivery": args.delivery,
        "lane": sorted({row.lane for row in result.partitions}),
        "why": sorted({row.why for row in result.partitions if row.why}),
        "records": result.records,
        "gb": round(gigabytes, 3),
        "seconds": round(seconds, 2),
        "cpu_s_per_gb": round((user + kernel) / gigabytes, 3),
        "user_s_per_gb": round(user / gigabytes, 3),
        "kernel_s_per_gb": round(kernel / gigabytes, 3),
        "mb_s": round(gigabytes * 1000 / seconds, 1),
        "records_s": round(records / seconds),
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "first_commit_s": round(watch.first or 0.0, 3),
        "digest_ok": digest_ok,
        "load": os.getloadavg()[0],
    }


def shape_of(args: argparse.Namespace) -> Shape:
    return Shape(
        record_bytes=args.record_bytes,
        codec=args.codec,
        batch_bytes=args.batch_bytes,
        partitions=args.partitions,
        gigabytes=args.gb,
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="spark_runner.bench", description=__doc__)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--record-bytes", type=int, default=1000)
    parser.add_argument("--codec", default="lz4")
    parser.add_argument("--batch-bytes", type=int, default=62_000)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--gb", type=float, default=2.0)
    parser.add_argument("--delivery", default="exactly_once")
    parser.add_argument("--commit-ms", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--topic", default="", help="an already filled topic")
    parser.add_argument("--keep", action="store_true", help="leave the filled topic there")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--no-digest", action="store_true")
    parser.add_argument("--here", action="store_true", help="copy in this process, once")
    return parser.parse_args()


def main() -> None:
    args = parse()
    source = ClusterClient(ClusterSpec(alias="source", bootstrap_servers=args.source))
    target = ClusterClient(ClusterSpec(alias="target", bootstrap_servers=args.target))
    source.open(time.monotonic() + _UP_S)
    target.open(time.monotonic() + _UP_S)
    if args.here:
        sys.stdout.write(json.dumps(copy(args, source, target)) + "\n")
        return
    made = not args.topic
    if made:
        args.topic = f"bench.{uuid.uuid4().hex[:8]}"
        view = create_topic(source, args.topic, args.partitions)
        workload.produce_batches(source, view, shape_of(args))
    try:
        for _ in range(args.repeats):
            again = [sys.executable, "-m", "spark_runner.bench", *sys.argv[1:]]
            subprocess.run([*again, "--topic", args.topic, "--here"], check=True)  # noqa: S603
    finally:
        if made and not args.keep:
            delete_topics(source, args.topic)


if __name__ == "__main__":
    main()
