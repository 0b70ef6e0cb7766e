"""REST of clusters and their connection tests."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors import tasks
from mirrors.api.base import (
    PropertiesField,
    StrictModelSerializer,
    StrictSerializer,
    person,
)
from mirrors.api.viewsets import RunViewSet
from mirrors.domain.access.rights import Right
from mirrors.domain.specs import ClusterSpec
from mirrors.lists.clusters import CLUSTERS, SETTINGS
from mirrors.models import Cluster, ClusterTest
from mirrors.services import clusters


class ClusterSerializer(StrictModelSerializer):
    # The service rejects a taken name, so that pages and REST say the same.
    alias = serializers.CharField(max_length=100)
    bootstrap_servers = serializers.CharField(max_length=5000)
    properties = PropertiesField(required=False)

    class Meta:
        model = Cluster
        fields = CLUSTERS.fields
        extra_kwargs = CLUSTERS.extra_kwargs
        read_only_fields = tuple(name for name in fields if name not in SETTINGS)


class TestAnswer(StrictSerializer):
    id = serializers.IntegerField(read_only=True)


class AddressResult(StrictSerializer):
    host = serializers.CharField(read_only=True)
    port = serializers.IntegerField(read_only=True)
    reachable = serializers.BooleanField(read_only=True, allow_null=True)
    reason = serializers.CharField(read_only=True)
    cluster_id = serializers.CharField(read_only=True)


class BrokerResult(StrictSerializer):
    id = serializers.IntegerField(read_only=True)
    host = serializers.CharField(read_only=True)
    port = serializers.IntegerField(read_only=True)
    rack = serializers.CharField(read_only=True)
    reachable = serializers.BooleanField(read_only=True, allow_null=True)
    reason = serializers.CharField(read_only=True)
    rtt_ms = serializers.FloatField(
        read_only=True,
        allow_null=True,
        help_text="The quickest of several small requests from the worker that ran the test.",
    )
    rtt_median_ms = serializers.FloatField(read_only=True, allow_null=True)
    read_bytes_per_second = serializers.IntegerField(
        read_only=True,
        allow_null=True,
        help_text=(
            "Maximum throughput of one connection from the broker: the smallest known socket "
            "buffer per round trip."
        ),
    )
    write_bytes_per_second = serializers.IntegerField(
        read_only=True, allow_null=True, help_text="The same to the broker."
    )
    distance = serializers.CharField(read_only=True, help_text="The figures as a sentence.")


class RightResult(StrictSerializer):
    name = serializers.CharField(read_only=True)
    allowed = serializers.BooleanField(read_only=True, allow_null=True)
    side = serializers.ChoiceField(choices=("source", "target", "both"), read_only=True)
    words = serializers.CharField(read_only=True)


class RegistryResult(StrictSerializer):
    url = serializers.CharField(read_only=True)
    reachable = serializers.BooleanField(read_only=True)
    words = serializers.CharField(read_only=True)


class TestResult(StrictSerializer):
    """What a test found; empty until it ends. Tests of an earlier version lack later fields."""

    reachable = serializers.BooleanField(read_only=True)
    code = serializers.CharField(read_only=True)
    message = serializers.CharField(read_only=True)
    taken_at = serializers.IntegerField(read_only=True)
    took_ms = serializers.IntegerField(read_only=True)
    cluster_id = serializers.CharField(read_only=True)
    version = serializers.CharField(read_only=True)
    features = serializers.DictField(child=serializers.IntegerField(), read_only=True)
    addresses = AddressResult(many=True, read_only=True)
    brokers = BrokerResult(many=True, read_only=True)
    topics = serializers.IntegerField(read_only=True)
    rights = RightResult(many=True, read_only=True)
    warnings = serializers.ListField(child=serializers.CharField(), read_only=True)
    advice = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        help_text="Which buffers hold connections to distant brokers below 1 Gb/s.",
    )
    registry = RegistryResult(
        read_only=True,
        allow_null=True,
        help_text="The schema registry; null for a cluster without one.",
    )


@extend_schema_field(TestResult)
class ResultField(serializers.JSONField):
    """The stored result as it is."""


class ClusterTestSerializer(StrictModelSerializer):
    cluster: Any = serializers.SlugRelatedField(slug_field="alias", read_only=True)
    result = ResultField(read_only=True)

    class Meta:
        model = ClusterTest
        fields = (
            "id",
            "cluster",
            "state",
            "reason",
            "result",
            "requested_by",
            "created_at",
            "started_at",
            "ended_at",
        )
        read_only_fields = fields


class ClusterViewSet(viewsets.ModelViewSet[Cluster]):
    """Kafka clusters by alias. Secrets are references, `env:NAME` or `file:/path`."""

    queryset = Cluster.objects.order_by("alias")
    serializer_class = ClusterSerializer
    http_method_names = ["get", "post", "patch", "delete", "head", "options"]  # noqa: RUF012
    lookup_field = "alias"
    lookup_value_regex = r"[A-Za-z0-9._-]{1,100}"
    search_fields = CLUSTERS.search
    ordering_fields = ("created_at", "reachable")
    ordering_aliases: ClassVar = CLUSTERS.orderings
    filter_fields: ClassVar = {"security_protocol": "security_protocol"}
    action_rights: ClassVar = {"test": Right.OPERATE}

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        asked = self.get_serializer(data=request.data)
        asked.is_valid(raise_exception=True)
        spec = ClusterSpec(**asked.validated_data)
        cluster = clusters.create_cluster(spec=spec, who=person(request))
        tasks.check_cluster.delay_on_commit(cluster.pk)
        return Response(self.get_serializer(cluster).data, status=status.HTTP_201_CREATED)

    def partial_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        cluster = self.get_object()
        asked = self.get_serializer(cluster, data=request.data, partial=True)
        asked.is_valid(raise_exception=True)
        spec = dataclasses.replace(cluster.spec, **asked.validated_data)
        cluster = clusters.update_cluster(cluster=cluster, spec=spec, who=person(request))
        tasks.check_cluster.delay_on_commit(cluster.pk)
        return Response(self.get_serializer(cluster).data)

    def perform_destroy(self, instance: Cluster) -> None:
        clusters.delete_cluster(cluster=instance, who=person(self.request))

    @extend_schema(request=None, responses={202: TestAnswer})
    @action(detail=True, methods=["post"])
    def test(self, request: Request, alias: str) -> Response:
        """Request a connection test by a worker; the result is at tests/{id}/."""
        test = clusters.request_test(cluster=self.get_object(), who=person(request))
        return Response({"id": test.pk}, status=status.HTTP_202_ACCEPTED)


class ClusterTestViewSet(RunViewSet):
    """Connection tests: queued, running, succeeded or failed."""

    queryset = ClusterTest.objects.select_related("cluster").order_by("-id")
    serializer_class = run_serializer = ClusterTestSerializer
    search_fields = ("cluster__alias", "reason")
    ordering_fields = ("id", "created_at", "state")
    filter_fields: ClassVar = {"cluster": "cluster__alias", "state": "state"}
