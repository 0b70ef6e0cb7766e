"""Clusters, their last check, connection tests, and previews of the topics that a flow selects."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Exists, OuterRef, Q

from mirrors.domain.access.grants import Reach, Subject
from mirrors.domain.access.rights import Right
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.states.runs import CONNECTION_TEST, TestState
from mirrors.models.access.grants import Owned
from mirrors.models.base import Reading, RunLifecycle, StateField


class SecurityProtocol(models.TextChoices):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class SaslMechanism(models.TextChoices):
    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class Cluster(Owned):
    """A registered cluster. Secrets are references (`env:NAME`, `file:/path`), never values."""

    alias = models.CharField(max_length=100, unique=True)
    bootstrap_servers = models.TextField()
    security_protocol = models.CharField(
        max_length=16, choices=SecurityProtocol, default=SecurityProtocol.PLAINTEXT
    )
    sasl_mechanism = models.CharField(max_length=16, choices=SaslMechanism, blank=True)
    sasl_username = models.CharField(max_length=255, blank=True)
    sasl_password = models.CharField(max_length=500, blank=True)
    ssl_ca = models.CharField(max_length=500, blank=True)
    ssl_certificate = models.CharField(max_length=500, blank=True)
    ssl_key = models.CharField(max_length=500, blank=True)
    properties = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    # Results of the last check; null before the first one.
    # Kafka's cluster ids have 22 characters; other brokers' differ.
    cluster_id = models.TextField(blank=True)
    brokers = models.PositiveIntegerField(null=True)
    reachable = models.BooleanField(null=True)
    reason = models.TextField(blank=True)
    # Sentences about unreachable addresses and expiring certificates; they block nothing.
    warnings = models.JSONField(default=list, blank=True)
    checked_at = models.DateTimeField(null=True)
    # When it last responded; null if it never did.
    reached_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("alias",)

    def __str__(self) -> str:
        return self.alias

    @classmethod
    def rows_reached(cls, where: Reach, right: Right) -> Q:
        found = Q(pk__in=where.clusters)
        if right is not Right.VIEW:
            return found
        flows: Any = cls._meta.get_field("flows_out").related_model
        ends = [flows.within(where, right).values(end) for end in ("source", "target")]
        return found | Q(pk__in=ends[0]) | Q(pk__in=ends[1])

    @property
    def access_subject(self) -> Subject:
        return Subject(name=self.alias, clusters=(self.pk,))

    @property
    def spec(self) -> ClusterSpec:
        return ClusterSpec(
            alias=self.alias,
            bootstrap_servers=self.bootstrap_servers,
            security_protocol=self.security_protocol,
            sasl_mechanism=self.sasl_mechanism,
            sasl_username=self.sasl_username,
            sasl_password=self.sasl_password,
            ssl_ca=self.ssl_ca,
            ssl_certificate=self.ssl_certificate,
            ssl_key=self.ssl_key,
            properties=dict(self.properties),
        )


def pair_subject(source: Cluster, target: Cluster) -> Subject:
    """What is demanded to add a flow: the right on both clusters."""
    return Subject(name=f"{source.alias}->{target.alias}", clusters=(source.pk, target.pk))


class ClusterTest(RunLifecycle, Owned):
    """One connection test: stored first, then queued, so that a lost message is detected."""

    task = "mirrors.tasks.run_test"
    parent = "cluster"

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="tests")
    state = StateField(CONNECTION_TEST, TestState.QUEUED)
    # The probe's report: reachable, code, message, cluster id, version, brokers, rights, warnings.
    result = models.JSONField(default=dict)
    started_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        indexes = (models.Index(fields=["requested_by", "created_at"], name="tests_of_person"),)

    def __str__(self) -> str:
        return f"test {self.pk} of {self.cluster_id}"


class TopicPreview(Reading, Owned):
    """A request to list the topics of a source that a flow's settings select.

    - `typed`: the form, so that its page shows it again beside the answer.
    - `rows`: the first topics, each a `PreviewRow`.
    """

    source = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    target = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    properties = models.JSONField(default=dict)
    typed = models.JSONField(default=dict)
    selected = models.PositiveIntegerField(null=True)
    excluded = models.PositiveIntegerField(null=True)
    rows = models.JSONField(default=list)
    missing = models.JSONField(default=list)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"topic preview {self.pk} of {self.source_id}"

    @classmethod
    def rows_reached(cls, where: Reach, right: Right) -> Q:
        """Of clusters on which a flow may be added; those of a flow are shown with it."""
        pair = Q(source__in=where.clusters, target__in=where.clusters)
        if right is not Right.VIEW:
            return pair
        flows: Any = Cluster._meta.get_field("flows_out").related_model
        of_pair = {"source": OuterRef("source"), "target": OuterRef("target")}
        of_flows = flows._base_manager.filter(flows.rows_reached(where, right), **of_pair)
        return pair | Q(Exists(of_flows))

    @property
    def access_subject(self) -> Subject:
        return pair_subject(self.source, self.target)
