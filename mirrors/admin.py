"""The admin site shows rows read-only: services change them, so that rules and audit apply."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from mirrors.models import Cluster, Flow, Job, Runner, Transition


class ReadOnly(admin.ModelAdmin):
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


admin.site.register([Cluster, Flow, Job, Runner, Transition], ReadOnly)
