"""Commands of Kafka's own tools that show a group, ready to paste into a shell."""

from __future__ import annotations

import shlex


def describe_command(bootstrap_servers: str, group: str, alias: str) -> str:
    """Return the `kafka-consumer-groups` command that describes the group on this cluster.

    The client properties file is a placeholder: the product shows no secret. Drop the option if the
    cluster needs no login. `--group=` accepts a name that begins with a dash.
    """
    words = (
        "kafka-consumer-groups",
        "--bootstrap-server",
        bootstrap_servers,
        "--command-config",
        f"{alias}-client.properties",
        "--describe",
        f"--group={group}",
    )
    return shlex.join(words)
