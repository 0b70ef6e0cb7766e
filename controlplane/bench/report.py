"""The table a person reads after the benchmark, and docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from controlplane.bench.measurement.results import (
    Run,
    Spread,
    cpu_ratio,
    grouped,
    speed_ratio,
    spread,
)
from controlplane.bench.run_conditions import RunConditions

COPY_HEAD = (
    "cell", "system", "runs", "CPU-s/GB", "less CPU", "opening", "source", "target", "all", "MB/s",
    "faster", "records/s", "memory MB", "first s", "after s", "window s", "foreign", "steal",
)  # fmt: skip
LIVE_HEAD = (
    "cell", "system", "runs", "p50 ms", "p90 ms", "p99 ms", "max ms", "source p50", "source p99",
    "source max", "cores", "wire MB/s", "over s", "handovers",
)  # fmt: skip
IDLE_HEAD = ("cell", "system", "runs", "partitions", "idle cores", "over s", "memory MB")
LINE_HEAD = ("cell", "system", "runs", "MB/s", "faster", "wire MB/s", "of the line")
Rows = list[list[str]]
INTRODUCTION = """\
# Benchmarks

`{command}` wrote this page on {machine}, with both brokers, the replicator and every reader on the
same processors, over loopback, one broker a cluster (Kafka 4.3.1). What the figures mean, and where
they fall short of what we want, is in [performance.md](performance.md).

How to read it:

- **CPU-s/GB** is user and system time of the replicator's whole process tree, children that ended
  included, per GB (10^9 bytes) of uncompressed records (key, value, header), over a window of
  **window s** seconds that began **after s** seconds of copying. It is what a shared machine
  measures well; MB/s depends on what else runs there.
- **opening** is the same over the first 20 s of copying: until its JVM has compiled what it runs,
  MirrorMaker 2 costs more. That takes some 40 s of full load, so a window is 30 s long and begins
  after 40 s, or sooner where the data is over before: then it is the last 30 s, and where a run
  does not even last so long, its last three quarters.
- **source** and **target** are the same for the two brokers: a replicator that sends small batches
  leaves its cost there. The target broker's includes the questions that measure progress.
- **all** is the replicator's and both brokers' together.
- **less CPU** is tuned MirrorMaker 2's CPU-s/GB over this row's, **faster** this row's MB/s over
  tuned MirrorMaker 2's; their ranges are worst over best.
- **memory** is proportional set size of the tree, at its most. **first** is from the start of the
  process to the first record on the target, start-up of JVM and Spark included.
- **foreign** is cores at work for anything but the replicator, the brokers and the benchmark;
  **steal** is cores the host took away. A row marked `!` had a window of under two seconds, or more
  than 0.02 cores taken away: do not quote it.
- Every copy was read back by an independent client and compared by count and by an order-aware
  digest of key, value, headers and timestamp in each partition. A run that differs has no figures.
- Latency is open loop: each record carries the moment it was meant to be sent. A consumer on the
  source itself, in the same run, shows what the machine and the brokers take without any copying.
  **handovers** is how often one Spark task followed another within **over s**, the seconds that
  were measured, and **wire MB/s** what crossed a distant line meanwhile, in its busier direction.
- Who runs first changes from cell to cell, and within a cell from pass to pass (A B C, C B A).
  Each run is into fresh topics under fresh aliases.
- Before each run of a gigabyte or more what memory lies free is filled with page cache, as a
  broker's is in service (up to 64 GB). A virtual machine's memory need not be backed by its host
  until it is touched, and a broker that was the first to touch it paid ten times the usual for each
  GB, which is nobody's speed. Then the source's log is read twice, so that it stays in memory and
  is not read from the disk: what is filled in is newer, so the kernel would give up the log first.
- The opponent at its defaults, and tuned as its operators advise, with two tasks, and with one
  (`mm2-tuned-1`). Ours has its defaults, one task among them. All settings stand below.
"""
DISTANCE = """\
# Benchmarks at a distance

`{command}` wrote this page on {machine}. It is for people who place a runner, or who change the
engine. A relay of our own stands before the far cluster: it delivers each byte half a round trip
after it came, in each direction. How the rest is measured, and what the columns mean, is in
[benchmarks.md](benchmarks.md).

- The name of a cell says which cluster is far away, the round trip, and what differs from the
  centre: 1 KB records, lz4, 16 partitions, exactly once for Understudy. *near* goes through the
  same relay at 0 ms.
- Understudy has its defaults, but commits each second (`commit.interval.ms=1000`).
- One connection has at most 64 MB on its way in one round trip. In *untuned* cells it is 6 MB,
  what a Linux gives whose `tcp_rmem` and `tcp_wmem` nobody raised.
- *mbit* limits the line in each direction, for all connections together. **wire MB/s** counts the
  bytes that crossed, requests and TLS included; **MB/s** counts uncompressed records.
- Packets are not lost. A connection opens without a round trip; its first request takes one.
- The relay is one process on the same two processors. It takes about half a CPU-second for each GB
  of records, of nobody's account, so speeds near the machine's limit are lower than in
  [benchmarks.md](benchmarks.md).
"""
# More than this and the host, not the system, made the figure.
MOST_STEAL = 0.02


def table(runs: Sequence[Run]) -> str:
    """Everything measured, as text in columns."""
    parts = []
    for title, head, rows in _tables(runs):
        if rows:
            parts += ["", title, *_columns([list(head), *rows])]
    return "\n".join(parts)


def _tables(runs: Sequence[Run]) -> list[tuple[str, tuple[str, ...], Rows]]:
    live = [run for run in runs if run.p50_ms is not None]
    idle = [run for run in runs if run.idle_cores is not None]
    # What little such a run copies first ends before it is steady: no result of copying.
    copied = [
        run
        for run in runs
        if run.cpu_s_per_gb is not None and run.p50_ms is None and run.idle_cores is None
    ]
    return [
        ("Copying a backlog: median (least-most); CPU of the replicator's processes, then of each "
         "broker", COPY_HEAD, _copy_rows(copied)),
        ("The line: bytes that crossed it; how much of a limited line was used", LINE_HEAD,
         _line_rows(run for run in copied if run.wire_mb_s)),
        ("Live traffic: from intended send to receipt", LIVE_HEAD, _live_rows(live)),
        ("Nothing to do", IDLE_HEAD, _idle_rows(idle)),
    ]  # fmt: skip


def _copy_rows(runs: Sequence[Run]) -> Rows:
    rows = []
    for cell, labels in grouped(runs).items():
        for label, same in labels.items():
            rows.append(
                [
                    cell,
                    _name(label, same),
                    str(len(same)),
                    _formatted(spread(run.cpu_s_per_gb for run in same), ".2f"),
                    _times(cpu_ratio(labels, label)),
                    _formatted(spread(run.opening_cpu_s_per_gb for run in same), ".2f"),
                    _formatted(spread(run.source_cpu_s_per_gb for run in same), ".2f"),
                    _formatted(spread(run.target_cpu_s_per_gb for run in same), ".2f"),
                    _formatted(spread(run.all_cpu_s_per_gb for run in same), ".2f"),
                    _formatted(spread(run.mb_s for run in same), ".0f"),
                    _times(speed_ratio(labels, label)),
                    _formatted(spread(run.records_s for run in same), ",.0f"),
                    _formatted(spread(run.rss_mb for run in same), ",.0f"),
                    _formatted(spread(run.first_record_s for run in same), ".1f"),
                    _formatted(spread(run.warmed_s for run in same), ".0f"),
                    _windows(same),
                    _formatted(spread(run.foreign_cores for run in same), ".2f"),
                    _formatted(spread(run.steal for run in same), ".2f"),
                ]
            )
    return rows


def _line_rows(runs: Iterable[Run]) -> Rows:
    return [
        [
            cell,
            _name(label, same),
            str(len(same)),
            _formatted(spread(run.mb_s for run in same), ".0f"),
            _times(speed_ratio(labels, label)),
            _formatted(spread(run.wire_mb_s for run in same), ".0f"),
            _formatted(spread(map(_line_share, same)), ".0%"),
        ]
        for cell, labels in grouped(runs).items()
        for label, same in labels.items()
    ]


def _line_share(run: Run) -> float | None:
    if run.wire_mb_s is None or run.line_mb_s is None:
        return None
    return run.wire_mb_s / run.line_mb_s


def _name(label: str, runs: Sequence[Run]) -> str:
    lanes = sorted({run.lane for run in runs if run.lane})
    return f"{label} ({', '.join(lanes)})" if lanes else label


def _windows(runs: Sequence[Run]) -> str:
    return _formatted(spread(run.window_s for run in runs), ".0f") + (
        " !" if any(run.short_window or (run.steal or 0) > MOST_STEAL for run in runs) else ""
    )


def _live_rows(runs: Sequence[Run]) -> Rows:
    names = ("p50_ms", "p90_ms", "p99_ms", "max_ms")
    sources = ("source_p50_ms", "source_p99_ms", "source_max_ms")
    rows = []
    for cell, labels in grouped(runs).items():
        for label, same in labels.items():
            figures = [
                _formatted(spread(getattr(run, name) for run in same), ".1f")
                for name in (*names, *sources)
            ]
            rest = [
                _formatted(spread(run.live_cores for run in same), ".2f"),
                _formatted(spread(run.live_wire_mb_s for run in same), ".1f"),
                _formatted(spread(run.live_s for run in same), ".0f"),
                _formatted(spread(run.handovers for run in same), ".0f"),
            ]
            rows.append([cell, _name(label, same), str(len(same)), *figures, *rest])
    return rows


def _idle_rows(runs: Sequence[Run]) -> Rows:
    return [
        [
            cell,
            _name(label, same),
            str(len(same)),
            str(same[0].partitions),
            _formatted(spread(run.idle_cores for run in same), ".4f"),
            _formatted(spread(run.idle_s for run in same), ".0f"),
            _formatted(spread(run.rss_mb for run in same), ",.0f"),
        ]
        for cell, labels in grouped(runs).items()
        for label, same in labels.items()
    ]


def _formatted(found: Spread | None, spec: str) -> str:
    return "-" if found is None else format(found, spec)


def _times(found: Spread | None) -> str:
    return _formatted(found, ".1f") + (" x" if found else "")


def _columns(rows: Rows) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(
            text.ljust(width) if at < 2 else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


# -- the document


def document(runs: Sequence[Run], setting: RunConditions, introduction: str = INTRODUCTION) -> str:
    """What was measured, how, with which settings of everybody."""
    parts = [introduction.format(command=setting.command, machine=setting.machine)]
    for title, head, rows in _tables(runs):
        if rows:
            parts += [f"## {title.partition(':')[0]}", "", *_markdown([list(head), *rows]), ""]
    failed = [run for run in runs if not run.digest_ok]
    if failed:
        parts += ["## Runs without figures", ""]
        parts += [f"- {run.cell}, {run.label}: {run.failure}" for run in failed]
        parts.append("")
    parts += ["## How each system was run", ""]
    for label, text in setting.configurations.items():
        parts += [f"### {label}", "", "```", text, "```", ""]
    return "\n".join(parts)


def _markdown(rows: Rows) -> list[str]:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return [lines[0], "|---|---|" + "---:|" * (len(rows[0]) - 2), *lines[1:]]


def write_document(
    runs: Sequence[Run], setting: RunConditions, path: Path, introduction: str = INTRODUCTION
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document(runs, setting, introduction))
