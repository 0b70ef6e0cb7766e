"""ACLs of topics and consumer groups: describe, create and delete them.

They are read through a separate connection. confluent-kafka returns an empty list where the broker
denies the request, or has no authorizer. An empty list would look like "no differences".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka.admin._acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
)
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from kafka.protocol.admin import DescribeAclsRequest

from mirrors.domain.topics.acls import GROUP, TOPIC, AclRule
from mirrors.kafka.connection.admin_client import DEADLINE_S, AdminConnection, Partial
from mirrors.kafka.connection.cluster_requests import ClusterRequests
from mirrors.kafka.error_codes import Code
from mirrors.kafka.error_table import error_of_number

CLIENT_ID = "understudy-acls"
_ANY = 1


class Acls(AdminConnection):
    """The ACLs of one cluster."""

    def rules(
        self, *, groups_too: bool = False, deadline_s: float = DEADLINE_S
    ) -> list[AclRule] | None:
        """Return all ACLs of topics; None if the cluster has no authorizer."""
        wanted = ResourceType.ANY if groups_too else ResourceType.TOPIC
        question = DescribeAclsRequest(
            resource_type_filter=wanted.value,
            resource_name_filter=None,
            pattern_type_filter=_ANY,
            principal_filter=None,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )
        with ClusterRequests(self.spec, deadline_s=deadline_s, client_id=CLIENT_ID) as cluster:
            answer = cluster.send_to_any(question, newest=3)
        if answer.error_code == Code.SECURITY_DISABLED:
            return None
        if answer.error_code:
            raise error_of_number(answer.error_code, where=self.spec.alias, doing="read ACLs")
        return [
            rule
            for resource in answer.resources
            for entry in resource.acls
            if (rule := _rule(resource, entry)) is not None
        ]

    def create_rules(
        self, rules: Iterable[AclRule], *, deadline_s: float = DEADLINE_S
    ) -> Partial[AclRule, None]:
        """Create ACLs. An existing one stays as it is."""
        wanted = {_binding(rule): rule for rule in rules}
        if not wanted:
            return Partial()
        futures = self.client.create_acls(list(wanted), request_timeout=deadline_s)
        return self.gather(
            {wanted[binding]: future for binding, future in futures.items()},
            doing=lambda rule: f"create an ACL of {rule.where} for {rule.principal}",
            deadline_s=deadline_s,
            fold=lambda _: None,
        )

    def delete_rules(
        self, rules: Iterable[AclRule], *, deadline_s: float = DEADLINE_S
    ) -> Partial[AclRule, None]:
        """Delete exactly these ACLs. A missing one counts as deleted."""
        wanted = {_exactly(rule): rule for rule in rules}
        if not wanted:
            return Partial()
        futures = self.client.delete_acls(list(wanted), request_timeout=deadline_s)
        return self.gather(
            {wanted[which]: future for which, future in futures.items()},
            doing=lambda rule: f"delete an ACL of {rule.where} for {rule.principal}",
            deadline_s=deadline_s,
            fold=lambda _: None,
        )


def _rule(resource: Any, entry: Any) -> AclRule | None:
    """None for another resource type, or for an operation that this program does not know."""
    try:
        kind = ResourceType(resource.resource_type).name
        if kind not in (TOPIC, GROUP):
            return None
        return AclRule(
            resource=kind,
            name=resource.resource_name,
            principal=entry.principal,
            host=entry.host,
            operation=AclOperation(entry.operation).name,
            permission=AclPermissionType(entry.permission_type).name,
            pattern=ResourcePatternType(resource.pattern_type).name,
        )
    except ValueError:
        return None


def _binding(rule: AclRule) -> AclBinding:
    return AclBinding(*_fields(rule))


def _exactly(rule: AclRule) -> AclBindingFilter:
    return AclBindingFilter(*_fields(rule))


def _fields(rule: AclRule) -> tuple[Any, ...]:
    return (
        ResourceType[rule.resource],
        rule.name,
        ResourcePatternType[rule.pattern],
        rule.principal,
        rule.host,
        AclOperation[rule.operation],
        AclPermissionType[rule.permission],
    )
