"""Commands that a person can type instead of each step; they use only Kafka's tools."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from mirrors.domain.groups.commands import describe_group

# Limits of topics and groups on a page; the export of a plan has them all.
_TOPICS, _GROUPS = 200, 50


def commands(
    *, source: str, target: str, checkpoints: str, plan: Mapping[str, Any]
) -> dict[str, str]:
    """Return shell lines by step. `source` and `target` are bootstrap servers."""
    one, two = shlex.quote(source), shlex.quote(target)
    topics = sorted({row["topic"] for row in plan["partitions"]})[:_TOPICS]
    remote = sorted({row["remote_topic"] for row in plan["partitions"]})[:_TOPICS]
    groups = sorted({row["group"] for row in plan["places"]})[:_GROUPS]
    ends = f"kafka-get-offsets.sh --bootstrap-server {one} --topic-partitions {_parts(plan)}"
    describe = "\n".join(describe_group(target, name) for name in groups)
    return {
        "detect": f"kafka-broker-api-versions.sh --bootstrap-server {one}\n"
        f"kafka-broker-api-versions.sh --bootstrap-server {two}",
        "verify_target": "\n".join(
            f"kafka-topics.sh --bootstrap-server {two} --describe --topic {shlex.quote(name)}"
            for name in remote
        ),
        "fence_producers": "\n".join(_deny(one, name, "--add") for name in topics),
        "drain": f"# until both say the same, and the flow is stopped\n{ends}",
        "read_checkpoints": (
            f"kafka-console-consumer.sh --bootstrap-server {two} --topic "
            f"{shlex.quote(checkpoints)} --from-beginning --timeout-ms 10000 --formatter "
            "org.apache.kafka.connect.mirror.formatters.CheckpointFormatter"
        ),
        "reset_groups": "\n".join(_reset(two, name, plan) for name in groups),
        "start_consumers": f"# start them with bootstrap.servers={target}; then\n{describe}",
        "redirect_producers": f"# bootstrap.servers={target}, then\n"
        + "\n".join(
            f"kafka-get-offsets.sh --bootstrap-server {two} --topic {shlex.quote(name)}"
            for name in topics
        ),
        "verify_flow": describe,
    }


def _deny(server: str, topic: str, verb: str) -> str:
    return (
        f"kafka-acls.sh --bootstrap-server {server} {verb} --deny-principal 'User:*' "
        f"--operation Write --topic {shlex.quote(topic)}"
    )


def _parts(plan: Mapping[str, Any]) -> str:
    rows = plan["partitions"][:_TOPICS]
    return shlex.quote(",".join(f"{row['topic']}:{row['partition']}" for row in rows))


def _reset(server: str, group: str, plan: Mapping[str, Any]) -> str:
    lines = "\n".join(
        f"{row['remote_topic']},{row['partition']},{row['downstream_offset']}"
        for row in plan["places"]
        if row["group"] == group and row["downstream_offset"] is not None
    )
    if not lines:
        return f"# {group} has no resume offset in any partition: do not change it"
    # Kafka's tool reads the file twice and ignores one that is empty then, so a pipe does not work.
    return (
        f"offsets=$(mktemp); cat > \"$offsets\" <<'END'\n{lines}\nEND\n"
        f"kafka-consumer-groups.sh --bootstrap-server {server} --group {shlex.quote(group)} "
        '--reset-offsets --from-file "$offsets" --execute; rm -f "$offsets"'
    )
