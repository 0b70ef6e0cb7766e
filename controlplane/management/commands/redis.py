"""One queue server in the foreground: a service of docker-compose.yml, or to develop against."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.demo.errors import DemoError
from controlplane.demo.processes import valkey
from controlplane.environment import env_secret


class Command(BaseCommand):
    help = (
        "Run the queue (Valkey or Redis) in the foreground. With an address other than this "
        "machine's it needs UNDERSTUDY_REDIS_PASSWORD (or …_FILE)."
    )
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directory", type=Path, help="where its data is")
        parser.add_argument("--port", type=int, default=6379)
        parser.add_argument("--bind", default="127.0.0.1", help="address to listen on")
        parser.add_argument(
            "--volatile", action="store_true", help="write nothing to disk; the queue may be lost"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        directory = options["directory"].resolve()
        password = env_secret("UNDERSTUDY_REDIS_PASSWORD")
        try:
            directory.mkdir(parents=True, exist_ok=True)
            text = valkey.configuration(
                directory,
                port=options["port"],
                bind=options["bind"],
                password=password,
                durable=not options["volatile"],
            )
            left_out = ("UNDERSTUDY_REDIS_PASSWORD", "REDIS_URL", "DATABASE_URL")
            kept = {k: v for k, v in os.environ.items() if k.removesuffix("_FILE") not in left_out}
            self.stdout.flush()
            valkey.run(text, kept)
        except DemoError as error:
            raise CommandError(error.message) from error
        except OSError as error:
            raise CommandError(f"{directory} cannot be used: {error.strerror}.") from None
