"""Alignment of two sequences of records: which record was changed, lost, added or swapped.

Records are equal if their digests are equal; their offsets do not matter. So a missing record is
one difference, not a shift of everything after it.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import Literal, NamedTuple

# Kinds of difference:
# - changed: the target holds another record there.
# - missing: the target does not hold it.
# - extra: only the target holds it.
# - doubled: the target holds it twice.
# - swapped: two records changed places.
# - apart: from here on nothing agrees, so no single record can be named.
Kind = Literal["changed", "missing", "extra", "doubled", "swapped", "apart"]

# The sequences are aligned again after this many equal records.
_AGREE = 3
_LOOK = 256
# The search for the next agreement stops after this many records.
WINDOW = 16_384
# With more differences than this, no single records are named.
MOST = 1000
_REMEMBERED = 4096
_TWINS = 16
_LONGEST_SCRIPT = 1024


class Row(NamedTuple):
    """A record: its offset, its digest and the values of its PARTS."""

    offset: int
    digest: bytes
    parts: tuple[object, ...] = ()


PARTS = ("key", "value", "headers", "timestamp")


@dataclasses.dataclass(frozen=True)
class Difference:
    """One difference between the two sides.

    - `source` and `target` are the records in question.
    - `twin` is the offset of the pair's other record: of a double the record that it repeats, of a
      swap the record in its place.
    - `behind` is the offsets of the last record before it on which both sides agree; -1 if there is
      none.
    """

    kind: Kind
    source: Row | None = None
    target: Row | None = None
    twin: int | None = None
    behind: tuple[int, int] = (-1, -1)

    @property
    def fields(self) -> tuple[str, ...]:
        """The parts that differ in a changed record."""
        if self.source is None or self.target is None:
            return ()
        pairs = zip(PARTS, self.source.parts, self.target.parts, strict=False)
        return tuple(name for name, one, two in pairs if one != two)


def unnamed_difference(source: int, target: int) -> Difference:
    """The difference for ranges whose digests differ but whose records could not be read."""
    return Difference("apart", Row(source, b""), Row(target, b""))


class Aligner:
    """Aligns two streams of records. It keeps only the records that it still needs."""

    def __init__(self) -> None:
        self._left: deque[Row] = deque()
        self._right: deque[Row] = deque()
        self._ended = (False, False)
        self._look = _LOOK
        self._found: list[Difference] = []
        self._behind = (-1, -1)
        self._recent: OrderedDict[bytes, tuple[int, int]] = OrderedDict()
        self.is_over = False

    @property
    def wants(self) -> tuple[bool, bool]:
        """For each side, whether more records are needed to continue."""
        return (
            not self._ended[0] and len(self._left) < self._look,
            not self._ended[1] and len(self._right) < self._look,
        )

    def feed(self, left: Iterable[Row] = (), right: Iterable[Row] = ()) -> None:
        self._left.extend(left)
        self._right.extend(right)
        self._step()

    def end(self, *, left: bool = False, right: bool = False) -> None:
        self._ended = (self._ended[0] or left, self._ended[1] or right)
        self._step()

    def differences(self) -> list[Difference]:
        """Return all differences, after both sides have ended. Two that belong together are one."""
        return _paired(self._found)

    def _step(self) -> None:
        while not self.is_over:
            self._match()
            if not self._left and not self._right:
                return
            if any(self.wants):
                return
            if (gap := self._meeting()) is not None:
                self._look = _LOOK
                ours = [self._left.popleft() for _ in range(gap[0])]
                self._note(ours, [self._right.popleft() for _ in range(gap[1])])
            elif self._look < WINDOW:
                self._look *= 4
            else:
                self._give_up()
            if len(self._found) > MOST:
                self._give_up()

    def _match(self) -> None:
        left, right, recent = self._left, self._right, self._recent
        while left and right and left[0].digest == right[0].digest:
            row, other = left.popleft(), right.popleft()
            self._behind = recent[row.digest] = (row.offset, other.offset)
            if len(recent) > _REMEMBERED:
                recent.popitem(last=False)

    def _meeting(self) -> tuple[int, int] | None:
        """Return how many records of each side come before the next agreement: the fewest."""
        left, right = list(islice(self._left, self._look)), list(islice(self._right, self._look))
        ended = (len(left) == len(self._left), len(right) == len(self._right))
        places: dict[bytes, list[int]] = {}
        for at, row in enumerate(right):
            known = places.setdefault(row.digest, [])
            if len(known) < _TWINS:
                known.append(at)
        best: tuple[int, int, int, int] | None = None
        if all(ended) and all(self._ended):
            best = (len(left) + len(right), 0, len(left), len(right))
        for one, row in enumerate(left):
            if best is not None and one > best[0]:
                break
            for two in places.get(row.digest, ()):
                cost = (one + two, abs(one - two), one, two)
                if (best is None or cost < best) and self._agree(left, one, right, two):
                    best = cost
        return None if best is None else (best[2], best[3])

    def _agree(self, left: Sequence[Row], one: int, right: Sequence[Row], two: int) -> bool:
        for _ in range(_AGREE):
            if one == len(left) or two == len(right):
                # Past the lookahead nothing is known. Where one side ends, the other must end as
                # well.
                cut = (one == len(left) < len(self._left)) or (two == len(right) < len(self._right))
                return cut or (one == len(left) and two == len(right))
            if left[one].digest != right[two].digest:
                return False
            one, two = one + 1, two + 1
        return True

    def _note(self, left: list[Row], right: list[Row]) -> None:
        """Record the shortest list of differences for the records between two agreements."""
        in_place = [
            Difference("changed", one, two)
            for one, two in zip(left, right, strict=False)
            if one.digest != two.digest
        ]
        if len(left) != len(right):
            in_place += [Difference("missing", row) for row in left[len(right) :]]
            in_place += [self._added(row, left) for row in right[len(left) :]]
        found = in_place
        if max(len(left), len(right)) <= _LONGEST_SCRIPT:
            found = min(in_place, self._script(left, right), key=len)
        self._found += [dataclasses.replace(row, behind=self._behind) for row in found]

    def _script(self, left: list[Row], right: list[Row]) -> list[Difference]:
        matcher = SequenceMatcher(
            None, [row.digest for row in left], [row.digest for row in right], autojunk=False
        )
        found: list[Difference] = []
        for does, a, b, c, d in matcher.get_opcodes():
            if does == "equal":
                continue
            both = min(b - a, d - c)
            found += [
                Difference("changed", one, two)
                for one, two in zip(left[a : a + both], right[c : c + both], strict=True)
            ]
            found += [Difference("missing", row) for row in left[a + both : b]]
            found += [self._added(row, left) for row in right[c + both : d]]
        return found

    def _added(self, row: Row, beside: Sequence[Row]) -> Difference:
        known = self._recent.get(row.digest)
        twin = known[0] if known is not None else None
        if twin is None:
            twin = next((one.offset for one in beside if one.digest == row.digest), None)
        return Difference("extra" if twin is None else "doubled", None, row, twin)

    def _give_up(self) -> None:
        here = self._left[0] if self._left else None
        self._found = self._found[:MOST]
        self._found.append(Difference("apart", here, self._right[0] if self._right else None))
        self._left.clear()
        self._right.clear()
        self.is_over = True


def _paired(found: Sequence[Difference]) -> list[Difference]:
    """Merge pairs: two records in each other's place are swapped, and so is one that moved."""
    crossed: dict[tuple[bytes, bytes], int] = {}
    gone: dict[bytes, int] = {}
    kept: list[Difference | None] = list(found)
    for at, row in enumerate(found):
        one, two = row.source, row.target
        if row.kind == "changed" and one is not None and two is not None:
            other = crossed.pop((two.digest, one.digest), None)
            if other is None:
                crossed[one.digest, two.digest] = at
                continue
            kept[other], kept[at] = _swapped(found[other], row), None
        elif row.kind in {"missing", "extra", "doubled"}:
            digest = one.digest if one is not None else two.digest if two is not None else b""
            other = gone.get(digest)
            if other is None or found[other].kind == row.kind or kept[other] is None:
                gone[digest] = at
                continue
            kept[min(other, at)], kept[max(other, at)] = _moved(found[other], row), None
            del gone[digest]
    return [row for row in kept if row is not None]


def _swapped(first: Difference, second: Difference) -> Difference:
    twin = second.source.offset if second.source is not None else None
    return Difference("swapped", first.source, first.target, twin)


def _moved(one: Difference, two: Difference) -> Difference:
    """Return one difference for a record that is missing in one place and extra in another."""
    return Difference("swapped", one.source or two.source, one.target or two.target)
