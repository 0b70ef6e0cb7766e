"""One Kafka broker in the foreground: a service of docker-compose.yml, or to develop against."""

from __future__ import annotations

import signal
import types
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.demo.errors import DemoError
from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.kafka.server_properties import NodeConfig


class Command(BaseCommand):
    help = "Run one Kafka broker (KRaft, plaintext) in the foreground until SIGTERM or Ctrl-C."
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directory", type=Path, help="where its data and its log live")
        parser.add_argument("--port", type=int, default=9092)
        parser.add_argument("--bind", default="127.0.0.1", help="address to listen on")
        parser.add_argument("--advertise", default="127.0.0.1", help="host name told to clients")

    def handle(self, *args: Any, **options: Any) -> None:
        directory, port = options["directory"].resolve(), options["port"]
        controller = port + 1
        broker = KafkaBroker(
            directory,
            name=directory.name,
            node=NodeConfig.alone(port, controller),
            properties={
                "listeners": f"PLAINTEXT://{options['bind']}:{port},"
                f"CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": f"PLAINTEXT://{options['advertise']}:{port}",
            },
        )
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            broker.start()
            self.stdout.write(f"Kafka {broker.name} responds on {options['bind']}:{port}.")
            assert broker.process is not None  # noqa: S101 - start() returned
            status = broker.process.wait()
        except DemoError as error:
            raise CommandError(error.message) from error
        except KeyboardInterrupt:
            broker.stop()
            return
        raise CommandError(f"Kafka {broker.name} exited with {status}; see {broker.log}.")


def _interrupt(signum: int, frame: types.FrameType | None) -> None:
    raise KeyboardInterrupt
