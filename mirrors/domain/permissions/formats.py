"""Permissions as kafka-acls.sh commands, as a KafkaUser of Strimzi, and as Terraform."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import yaml

from mirrors.domain.permissions.required import CLUSTER, Permission, Side
from mirrors.domain.specs import ClusterSpec

FORMATS = ("kafka-acls", "strimzi", "terraform")
_BY_NAME = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# Operations of kafka-acls.sh as the provider Mongey/kafka names its resources.
_TERRAFORM = {
    "topic": "Topic",
    "group": "Group",
    "transactional-id": "TransactionalID",
    "cluster": "Cluster",
}
_STRIMZI = {"transactional-id": "transactionalId"}


def principal_of(cluster: ClusterSpec) -> str:
    """The principal as which we log in; a placeholder if a certificate decides it."""
    if cluster.sasl_mechanism in _BY_NAME and cluster.security_protocol.startswith("SASL"):
        return f"User:{cluster.sasl_username}"
    return "User:<principal>"


def written(
    form: str, permissions: Sequence[Permission], *, cluster: ClusterSpec, side: Side
) -> str:
    """The permissions of one side in this form; empty if there are none."""
    rows = [row for row in permissions if row.side == side]
    principal = principal_of(cluster)
    if not rows:
        return ""
    if form == "strimzi":
        return _strimzi(rows, principal, cluster)
    if form == "terraform":
        return _terraform(rows, principal, cluster)
    return _commands(rows, principal, cluster)


def _commands(rows: list[Permission], principal: str, cluster: ClusterSpec) -> str:
    lines = []
    for row in rows:
        words = ["kafka-acls.sh", "--bootstrap-server", cluster.bootstrap_servers, "--add"]
        words += ["--allow-principal", principal]
        for operation in row.operations:
            words += ["--operation", operation]
        words += ["--cluster"] if row.resource == "cluster" else [f"--{row.resource}", row.name]
        if row.pattern == "prefixed":
            words += ["--resource-pattern-type", "prefixed"]
        lines += [f"# {row.why}", shlex.join(words)]
    return "\n".join(lines) + "\n"


def _strimzi(rows: list[Permission], principal: str, cluster: ClusterSpec) -> str:
    acls: list[dict[str, Any]] = []
    for row in rows:
        resource: dict[str, Any] = {"type": _STRIMZI.get(row.resource, row.resource)}
        if row.resource != "cluster":
            resource |= {
                "name": row.name,
                "patternType": "prefix" if row.pattern == "prefixed" else "literal",
            }
        acls.append({"resource": resource, "operations": list(row.operations), "host": "*"})
    name = principal.partition(":")[2].strip("<>").lower().replace("_", "-")
    user = {
        "apiVersion": "kafka.strimzi.io/v1beta2",
        "kind": "KafkaUser",
        "metadata": {"name": name, "labels": {"strimzi.io/cluster": cluster.alias}},
        "spec": {"authorization": {"type": "simple", "acls": acls}},
    }
    return str(yaml.safe_dump(user, sort_keys=False))


def _terraform(rows: list[Permission], principal: str, cluster: ClusterSpec) -> str:
    blocks: list[str] = []
    for row in rows:
        for operation in row.operations:
            number = len(blocks) + 1
            name = CLUSTER if row.resource == "cluster" else row.name
            blocks.append(
                f"# {row.why}\n"
                f'resource "kafka_acl" "{_identifier(cluster.alias)}_{number}" {{\n'
                f"  resource_name                = {_quoted(name)}\n"
                f'  resource_type                = "{_TERRAFORM[row.resource]}"\n'
                f'  resource_pattern_type_filter = "{row.pattern.capitalize()}"\n'
                f"  acl_principal                = {_quoted(principal)}\n"
                f'  acl_host                     = "*"\n'
                f'  acl_operation                = "{operation}"\n'
                f'  acl_permission_type          = "Allow"\n'
                "}\n"
            )
    return "\n".join(blocks)


def _identifier(text: str) -> str:
    return "understudy_" + "".join(letter if letter.isalnum() else "_" for letter in text)


def _quoted(text: str) -> str:
    """A string of HCL: quotes, backslashes and templates are escaped."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + plain.replace("${", "$${").replace("%{", "%%{") + '"'
