"""A copying process that tests kill or freeze; it reads its work from standard input."""

from __future__ import annotations

import json
import sys

from mirrors.kafka.protocol import sockets
from mirrors.kafka.protocol.sockets import Target
from spark_runner.engine.epoch import RawCopier
from spark_runner.ipc.messages import SliceWork
from spark_runner.kafka_protocol import produce
from tests.wire.world import Driver


def go_through(relays: dict[str, int]) -> None:
    """Connect to these ports of brokers through the relays before them."""
    resolve = sockets.resolve

    def through(host: str, port: int, deadline: float) -> list[Target]:
        return resolve(host, relays.get(str(port), port), deadline)

    sockets.resolve = through


def main() -> None:
    work = SliceWork.from_json(sys.stdin.readline())
    newest = int(sys.argv[1]) if len(sys.argv) > 1 else produce.MAX_VERSION
    go_through(json.loads(sys.argv[2]) if len(sys.argv) > 2 else {})
    driver = Driver()
    copier = RawCopier(newest_produce=newest)
    result = copier.run(work, driver)  # type: ignore[arg-type]
    sys.stdout.write(result.to_json() + "\n")


if __name__ == "__main__":
    main()
