"""Bases of view sets: runs of one kind."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Model
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.response import Response

from mirrors.models import Role


class RunViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, viewsets.GenericViewSet[Any]):
    """Runs of one kind, newest first: a request stores one, its address follows it.

    The service that stores a request sends its message, so no view does.
    """

    write_role = Role.OPERATOR
    lookup_value_regex = r"\d{1,18}"
    # Shows one run, also where the list shows less of it.
    run_serializer: ClassVar[type[serializers.BaseSerializer[Any]]]

    def answer(self, run: Model, code: int = status.HTTP_200_OK) -> Response:
        return Response(self.run_serializer(run).data, status=code)

    def created(self, run: Model) -> Response:
        return self.answer(run, status.HTTP_201_CREATED)
