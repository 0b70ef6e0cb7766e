"""The outcome of a comparison: one word and one sentence, from its counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from mirrors.domain.comparison.findings import Aspect

# same: all that was asked agrees. partly: so does all that was read. differs: something does not.
Verdict = Literal["same", "differs", "partly"]
_WORDS = {
    "topic": ("topic is missing", "topics are missing"),
    "partition": ("topic differs in its partitions", "topics differ in their partitions"),
    "config": ("topic config differs", "topic configs differ"),
    "acl": ("ACL is missing", "ACLs are missing"),
    "group": ("group offset is ahead", "group offsets are ahead"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Content:
    """Sums over all partitions. `unread` counts requested source offsets that were not read."""

    partitions: int = 0
    same: int = 0
    differs: int = 0
    source_records: int = 0
    target_records: int = 0
    differences: int = 0
    unread: int = 0
    unread_partitions: int = 0


def judge(content: Content, aspects: Sequence[Aspect], *, asked_content: bool) -> Verdict:
    if content.differences or any(row.differs for row in aspects):
        return "differs"
    return "partly" if asked_content and content.unread_partitions else "same"


def sentence(
    content: Content, aspects: Sequence[Aspect], *, source: str, target: str, asked_content: bool
) -> str:
    """Return the outcome in sentences: first whether the records are the same."""
    words = [_content(content, source, target)] if asked_content else []
    wrong = [
        f"{row.differs:,} {_WORDS[row.about][row.differs != 1]}"
        for row in aspects
        if row.differs and row.about in _WORDS
    ]
    words.append(f"{', '.join(wrong)}." if wrong else "Topics, topic configs and ACLs match.")
    return " ".join(words)


def _compacted(content: Content, source: str, target: str) -> str:
    """Return a remark for a compacted topic: each side compacts at its own time."""
    less = content.source_records - content.target_records
    if less == 0 or content.unread_partitions:
        return ""
    side = target if less > 0 else source
    return f", apart from {abs(less):,} that compaction already removed on {side}"


def _content(content: Content, source: str, target: str) -> str:
    records = f"{content.source_records:,} records in {content.partitions:,} partitions"
    if content.differences:
        many = (
            "1 difference" if content.differences == 1 else f"{content.differences:,} differences"
        )
        text = f"{many} in content between {source} and {target}, over {records}."
    elif content.source_records:
        text = (
            f"{source} and {target} hold the same {records}{_compacted(content, source, target)}."
        )
    else:
        text = f"{source} had no records to compare with {target}."
    if content.unread_partitions:
        text += (
            f" Not read: {content.unread:,} source offsets of {content.unread_partitions:,} "
            "partitions; each partition shows the reason."
        )
    return text
