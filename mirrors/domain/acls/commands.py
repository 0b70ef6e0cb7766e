"""Commands that grant a missing right, as a person may run them."""

from __future__ import annotations

import shlex

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import ClusterSpec

_BY_NAME = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def grant_command(cluster: ClusterSpec, operation: str, *, topic: str) -> str:
    """`operation` in Kafka's words (`Describe`, `Read`). The name of a principal that does not log
    in by one is not known here."""
    principal = "User:<principal>"
    if cluster.sasl_mechanism in _BY_NAME and cluster.security_protocol.startswith("SASL"):
        principal = f"User:{cluster.sasl_username}"
    return (
        f"kafka-acls.sh --bootstrap-server {shlex.quote(cluster.bootstrap_servers)} --add "
        f"--allow-principal {shlex.quote(principal)} --operation {operation} "
        f"--topic {shlex.quote(topic)}"
    )


def with_grant(
    words: str, error: UnderstudyError, cluster: ClusterSpec, operation: str, topic: str
) -> str:
    """The sentence, and how to grant the right where one is missing."""
    if error.code != "not_authorised":
        return words
    return f"{words} Grant it: {grant_command(cluster, operation, topic=topic)}"
