"""Commands of Kafka's own tools for one consumer group, quoted for a shell."""

from __future__ import annotations

import shlex


def describe_group(bootstrap_servers: str, group: str, *, config_file: str = "") -> str:
    """Return the command that prints the group's offsets and lag on one cluster.

    `config_file` holds the client properties of a cluster with login. `--group=` accepts a name
    that begins with a dash.
    """
    config = ("--command-config", config_file) if config_file else ()
    return shlex.join(
        (
            "kafka-consumer-groups.sh",
            "--bootstrap-server",
            bootstrap_servers,
            *config,
            "--describe",
            f"--group={group}",
        )
    )
