"""Access rules of topics: read them all, make new ones. Nothing here takes one away."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from mirrors.domain.acls import AclRule
from mirrors.kafka.connection import DEADLINE_S, AdminConnection, Partial
from mirrors.kafka.errors import translate


class Acls(AdminConnection):
    """One cluster's access rules of topics."""

    def topic_rules(self, *, deadline_s: float = DEADLINE_S) -> list[AclRule] | None:
        """Every rule of topics; None where the cluster has no authorizer and so keeps none."""
        whatever: Any = None  # the client's stubs leave out that a filter may be open
        every = AclBindingFilter(
            ResourceType.TOPIC,
            whatever,
            ResourcePatternType.ANY,
            whatever,
            whatever,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        try:
            future = self.client.describe_acls(every, request_timeout=deadline_s)
            found = future.result(timeout=deadline_s + 1.0)
        except (KafkaException, TimeoutError) as error:
            refusal = translate(error, where=self.spec.alias, doing="read access rules of topics")
            if refusal.code == "security_off":
                return None
            raise refusal from None
        return [_rule(binding) for binding in found]

    def create_rules(
        self, rules: Iterable[AclRule], *, deadline_s: float = DEADLINE_S
    ) -> Partial[AclRule, None]:
        """A rule that exists already is made again without effect."""
        wanted = {_binding(rule): rule for rule in rules}
        if not wanted:
            return Partial()
        futures = self.client.create_acls(list(wanted), request_timeout=deadline_s)
        return self.gather(
            {wanted[binding]: future for binding, future in futures.items()},
            doing=lambda rule: f"make an access rule of topic {rule.topic} for {rule.principal}",
            deadline_s=deadline_s,
            fold=lambda _: None,
        )


def _rule(binding: Any) -> AclRule:
    return AclRule(
        topic=binding.name,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation.name,
        permission=binding.permission_type.name,
        pattern=binding.resource_pattern_type.name,
    )


def _binding(rule: AclRule) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        rule.topic,
        ResourcePatternType[rule.pattern],
        rule.principal,
        rule.host,
        AclOperation[rule.operation],
        AclPermissionType[rule.permission],
    )
