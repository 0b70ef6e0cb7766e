"""manage.py rebuild_from_kafka: an empty database filled from what lies on a standby cluster."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.models import Cluster
from mirrors.services.clusters import problems_of
from mirrors.services.standby.rebuild import DEADLINE_S, rebuild

_FIELDS = (
    ("security_protocol", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
    ("sasl_mechanism", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"),
    ("sasl_username", "the user"),
    ("sasl_password", "a reference, env:NAME or file:/path, not the secret"),
    ("ssl_ca", "a reference to the certificates to trust"),
    ("ssl_certificate", "a reference to our certificate"),
    ("ssl_key", "a reference to its key"),
)


class Command(BaseCommand):
    help = (
        "Restore clusters (secrets as references), flows with their settings, plans and last "
        "simulations, and the run index, from the backup that flows write to their target."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        where = parser.add_mutually_exclusive_group(required=True)
        where.add_argument("--bootstrap", help="addresses of the standby cluster, host:port,…")
        where.add_argument("--cluster", help="the alias of one that is registered here")
        for name, words in _FIELDS:
            parser.add_argument(f"--{name.replace('_', '-')}", help=words)
        parser.add_argument(
            "--merge", action="store_true", help="add what is missing where rows are there already"
        )
        parser.add_argument(
            "--start", action="store_true", help="run flows again that ran when they were kept"
        )
        parser.add_argument(
            "--yes", action="store_true", help="restore without a question; for addresses you know"
        )
        parser.add_argument(
            "--public-key",
            action="append",
            default=[],
            help="trust backups signed with this key too: hex, as certificates show it; repeatable",
        )
        parser.add_argument("--deadline", type=float, default=DEADLINE_S, help="seconds in all")
        parser.add_argument("--who", default="command line", help="the name for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            done = rebuild(
                spec=_spec(options),
                who=options["who"],
                merge=options["merge"],
                start=options["start"],
                deadline_s=options["deadline"],
                public_keys=options["public_key"],
                confirm=None if options["yes"] else self._confirm,
            )
        except UnderstudyError as error:
            raise CommandError(error.message) from None
        if not done.flows:
            raise CommandError(f"No flow was restored. {' '.join(done.sentences)}")
        for sentence in done.sentences:
            self.stdout.write(sentence)
        names = ", ".join(done.flows)
        self.stdout.write(
            f"Restored {names}. Secrets are references: check that they resolve here, test each "
            "cluster's connection, then start the flows that may run."
        )

    def _confirm(self, rows: list[str]) -> bool:
        """List what would be created; only a person at a terminal can agree."""
        self.stdout.write("The backup would create:")
        for row in rows:
            self.stdout.write(f"  {row}")
        self.stdout.write(
            "Your installation signed all of that. Check each address and the time of each "
            "signature all the same: secrets behind these references are sent to the addresses."
        )
        if not sys.stdin.isatty():
            self.stdout.write("Run it again with --yes if all of that is right.")
            return False
        return input("Type yes to create all of that: ").strip() == "yes"


def _spec(options: dict[str, Any]) -> ClusterSpec:
    given = {name: options[name] for name, _ in _FIELDS if options[name]}
    if alias := options["cluster"]:
        cluster = Cluster.objects.filter(alias=alias).first()
        if cluster is None:
            raise CommandError(
                f"No cluster {alias} is registered here. Enter its addresses with --bootstrap."
            )
        if given:
            raise CommandError(
                "The registered cluster has its own login settings; leave out the options for "
                "them, or use --bootstrap."
            )
        return cluster.spec
    spec = ClusterSpec(alias="standby", bootstrap_servers=options["bootstrap"], **given)
    if problems := problems_of(spec):
        raise CommandError(" ".join(text for texts in problems.values() for text in texts))
    return spec
