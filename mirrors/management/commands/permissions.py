"""manage.py permissions FLOW: the least Kafka permissions that a flow needs on both clusters."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mirrors.domain.permissions.formats import FORMATS
from mirrors.models import Flow
from mirrors.services.permissions import permissions_document


class Command(BaseCommand):
    help = "Print what to grant to the flow's principals: commands, a KafkaUser, or Terraform."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("flow", help="its name, such as primary->backup")
        parser.add_argument("--form", choices=FORMATS, default=FORMATS[0])
        parser.add_argument("--failover", action="store_true", help="also for a failover of it")

    def handle(self, *args: Any, **options: Any) -> None:
        rows = list(Flow.objects.select_related("source", "target").order_by("pk"))
        flow = next((row for row in rows if row.name == options["flow"]), None)
        if flow is None:
            known = ", ".join(row.name for row in rows) or "none"
            raise CommandError(f"There is no flow {options['flow'][:100]}. Flows: {known}.")
        document = permissions_document(
            flow=flow, form=options["form"], failover=options["failover"]
        )
        texts: list[str] = []
        for side in document["sides"]:
            separator = "---\n" if texts and options["form"] == "strimzi" else ""
            heading = f"# {side['side']}: {side['cluster']}, for {side['principal']}\n"
            texts.append(f"{separator}{heading}{side['text']}")
        self.stdout.write("\n".join(texts).rstrip("\n"))
