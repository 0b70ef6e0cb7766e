"""What compaction explains is counted: a changed record may leave a difference on both sides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mirrors.domain.comparison.alignment import Difference, Row
from mirrors.services.comparison import compaction

PART: Any = SimpleNamespace(topic="keys", remote_topic="a.keys", partition=0)
SPEC: Any = SimpleNamespace(source="a", target="b")
CHANGED = Difference(
    "changed", Row(7, b"1", (b"k", b"v")), Row(4, b"2", (b"k", b"w")), behind=(6, 3)
)


@pytest.mark.parametrize(
    ("later_on_target", "kept", "explained"),
    [({}, ["missing", "extra"], 0), ({b"k": False}, ["extra"], 1)],
)
def test_a_changed_record_counts_once_for_each_side(
    monkeypatch: pytest.MonkeyPatch,
    later_on_target: dict[bytes, bool],
    kept: list[str],
    explained: int,
) -> None:
    later = {"a": {}, "b": later_on_target}
    monkeypatch.setattr(compaction, "_later", lambda cluster, *_: later[cluster])
    rows, count = compaction.not_explained_by_compaction(
        SPEC, PART, (0, 0), [CHANGED], lambda: None
    )
    assert ([row.kind for row in rows], count) == (kept, explained)
