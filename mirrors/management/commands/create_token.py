"""manage.py create_token NAME: print a new API token of a person, once."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mirrors.domain.errors import UnderstudyError
from mirrors.models import Scope
from mirrors.services.users import create_token


class Command(BaseCommand):
    help = "Print a new API token of a user. It is shown only once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--days", type=int, default=90, help="how long it is valid")
        parser.add_argument("--scope", choices=Scope.values, default=Scope.EVERYTHING.value)
        parser.add_argument("--name", default="", help="what it is for")

    def handle(self, *args: Any, **options: Any) -> str:
        try:
            return create_token(
                **{name: options[name] for name in ("username", "days", "scope", "name")}
            )
        except UnderstudyError as error:
            raise CommandError(error.message) from None
