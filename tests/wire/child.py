"""A copying process that tests kill or freeze; it reads its work from standard input."""

from __future__ import annotations

import sys

from spark_runner.engine.epoch import RawCopier
from spark_runner.ipc.messages import SliceWork
from spark_runner.kafka_protocol import produce
from tests.wire.world import Driver


def main() -> None:
    work = SliceWork.from_json(sys.stdin.readline())
    newest = int(sys.argv[1]) if len(sys.argv) > 1 else produce.MAX_VERSION
    driver = Driver()
    copier = RawCopier(newest_produce=newest)
    result = copier.run(work, driver)  # type: ignore[arg-type]
    sys.stdout.write(result.to_json() + "\n")


if __name__ == "__main__":
    main()
