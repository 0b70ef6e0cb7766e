"""`manage.py write_terraform`: write what the Terraform provider knows of the REST API."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from controlplane.api.terraform import PATH, rendered


class Command(BaseCommand):
    help = "Write the resources and data sources of the Terraform provider into deploy/terraform."

    def handle(self, *args: Any, **options: Any) -> None:
        PATH.write_text(rendered(), encoding="utf-8")
