"""manage.py create_person NAME --role ROLE: let a person in; the password comes from a prompt."""

from __future__ import annotations

import getpass
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from mirrors.models import Role
from mirrors.services.users import ensure_person


class Command(BaseCommand):
    help = "Create a user, or give one a new role and password (asked for, or one line of stdin)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        words = [role.word for role in Role if role is not Role.NONE]
        parser.add_argument("--role", choices=words, default=Role.VIEWER.word)

    def handle(self, *args: Any, **options: Any) -> str:
        asked = sys.stdin.isatty()
        password = getpass.getpass("Password: ") if asked else sys.stdin.readline().strip()
        role = Role[options["role"].upper()]
        ensure_person(username=options["username"], password=password or None, role=role)
        return f"{options['username']} has the role {role.word}."
