"""A stored plan as a script: the fence, each group's places, reading back, what clients change.

A. Nothing of the plan is code: every text of it is one quoted word, or lies in a comment without a
   line end.
B. A group's places are set in one call from a file, and read back before the next group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from mirrors.domain.script.parts import FENCE, GROUPS, HEAD, MAIN, TOOLS
from mirrors.domain.script.quoting import call, can_be_said, comment, csv_line, word

# A command line has an end; a thousand names of the longest kind are far below it.
TOPICS_A_CALL = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def failover_script(
    plan: Mapping[str, Any], *, title: str, source_bootstrap: str, target_bootstrap: str
) -> str:
    """`plan` is a FailoverPlan as JSON; the same plan gives the same text."""
    places, missing = _places(plan["places"])
    topics = sorted({row["topic"] for row in plan["partitions"] if can_be_said(row["topic"])})
    lines = [
        "#!/usr/bin/env bash",
        *_comments(plan, title),
        HEAD,
        f"source_bootstrap={word(source_bootstrap)}",
        f"target_bootstrap={word(target_bootstrap)}",
        f"missing={len(missing)}",
        "",
        TOOLS,
        GROUPS,
        FENCE,
        *_function("each_group", _group_calls(places)),
        *_function("each_topic", _topic_calls(topics)),
        *_function("findings", _findings(plan, missing)),
        *_function("clients", _says(change["sentence"] for change in plan["clients"])),
        MAIN,
    ]
    return "\n".join(lines)


def _comments(plan: Mapping[str, Any], title: str) -> Iterator[str]:
    taken = _EPOCH + timedelta(milliseconds=plan["taken_at"])
    for text in (
        f"Failover of {plan['flow']} with Kafka's own tools alone. {title}",
        f"Planned {taken:%Y-%m-%d %H:%M:%S} UTC, plan {plan['digest']}.",
        "The places are those of that moment: what a group consumed since, it reads again.",
        "Stop the flow first, and the consumers on the source; then: fence, groups, clients.",
        *(row["sentence"] for row in plan.get("left_behind", ())),
    ):
        yield comment(text)


def _places(
    rows: Iterable[Mapping[str, Any]],
) -> tuple[dict[str, list[str]], list[Mapping[str, Any]]]:
    """Lines by group, and the rows that no line can be made of."""
    lines: dict[str, list[str]] = {}
    missing = []
    for row in rows:
        group, topic, offset = row["group"], row["remote_topic"], row["downstream_offset"]
        if offset is None or not (group and can_be_said(group) and can_be_said(topic)):
            missing.append(row)
        else:
            lines.setdefault(group, []).append(csv_line(topic, row["partition"], offset))
    return lines, missing


def _group_calls(places: Mapping[str, list[str]]) -> Iterator[str]:
    for group, lines in sorted(places.items()):
        yield from call('"$1"', [group, *lines])


def _topic_calls(topics: list[str]) -> Iterator[str]:
    for start in range(0, len(topics), TOPICS_A_CALL):
        yield from call('deny "$1"', topics[start : start + TOPICS_A_CALL])


def _findings(plan: Mapping[str, Any], missing: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    sentences = [f"In the way: {row['where']}: {row['sentence']}" for row in plan["blockers"]]
    sentences += [f"Left behind: {row['sentence']}" for row in plan.get("left_behind", ())]
    sentences += [f"To know: {row['where']}: {row['sentence']}" for row in plan["warnings"]]
    for row in missing:
        why = row["reason"] or "a command line cannot carry the name"
        place = f"{row['topic']}-{row['partition']}"
        sentences.append(f"No place for {row['group']} in {place}: {why}")
    return _says(sentences)


def _says(sentences: Iterable[str]) -> Iterator[str]:
    said = [_shown(text) for text in sentences]
    return call("say", said) if said else iter(())


def _shown(text: str) -> str:
    """A terminal obeys some characters; a person needs none of those."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _function(name: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"{name}() {{"
    yield "  :"
    yield from lines
    yield "}"
    yield ""
