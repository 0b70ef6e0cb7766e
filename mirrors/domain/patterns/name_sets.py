"""Sets of topic names given by patterns, which can be intersected: do two flows share a name?

The method is Brzozowski's derivatives. The rests of names after one character are again such a set.
So a search over characters finds the shortest name in an intersection, or proves that there is
none.
"""

from __future__ import annotations

import functools
import itertools
import string
from collections import deque
from collections.abc import Iterable
from weakref import WeakValueDictionary

# The order makes examples look natural.
ALPHABET = string.ascii_lowercase + string.digits + string.ascii_uppercase + "-_."
EVERY = (1 << len(ALPHABET)) - 1
# More states than real settings need; beyond it the result is undecided.
MOST_STATES = 1000


class Undecided(Exception):
    """The patterns are too complex to decide."""


class Language:
    """One node. Only the functions below create nodes: equal nodes are one object."""

    __slots__ = ("__weakref__", "kind", "mask", "masks", "nullable", "parts", "serial")

    nullable: bool
    masks: frozenset[int]

    def __init__(self, kind: str, mask: int, parts: tuple[Language, ...], serial: int) -> None:
        self.kind = kind
        self.mask = mask
        self.parts = parts
        self.serial = serial
        # Whether the set contains the empty name.
        self.nullable = {
            "empty": True,
            "star": True,
            "not": not parts or not parts[0].nullable,
            "or": any(part.nullable for part in parts),
            "and": all(part.nullable for part in parts),
            "then": all(part.nullable for part in parts),
        }.get(kind, False)
        # All character sets inside: letters that these do not distinguish, the language does not
        # either.
        own = frozenset({mask}) if kind == "one" else frozenset[int]()
        self.masks = own.union(*(part.masks for part in parts))


_nodes: WeakValueDictionary[tuple[str, int, tuple[int, ...]], Language] = WeakValueDictionary()
_serials = itertools.count()


def _node(kind: str, mask: int = 0, parts: tuple[Language, ...] = ()) -> Language:
    # Parts are identified by serial numbers, which are never reused.
    key = (kind, mask, tuple(part.serial for part in parts))
    found = _nodes.get(key)
    if found is None:
        found = _nodes[key] = Language(kind, mask, parts, next(_serials))
    return found


NOTHING = _node("nothing")
EMPTY = _node("empty")


def one(mask: int) -> Language:
    """Return the names of one character out of a set."""
    return _node("one", mask) if mask else NOTHING


def text(name: str) -> Language:
    return functools.reduce(
        lambda rest, letter: then(one(_bit(letter)), rest), reversed(name), EMPTY
    )


def then(first: Language, second: Language) -> Language:
    if first is NOTHING or second is NOTHING:
        return NOTHING
    # Always a chain to the right, so that equal languages are mostly equal nodes.
    links = []
    while first.kind == "then":
        links.append(first.parts[0])
        first = first.parts[1]
    for link in reversed([*links, first]):
        if second is EMPTY:
            second = link
        elif link is not EMPTY:
            second = _node("then", parts=(link, second))
    return second


def star(inner: Language) -> Language:
    if inner in (NOTHING, EMPTY):
        return EMPTY
    return inner if inner.kind == "star" else _node("star", parts=(inner,))


def invert(inner: Language) -> Language:
    return inner.parts[0] if inner.kind == "not" else _node("not", parts=(inner,))


ANY = star(one(EVERY))
_ALL = invert(NOTHING)


def either(*parts: Language) -> Language:
    found = _flat("or", parts) - {NOTHING}
    if _ALL in found or ANY in found:
        return _ALL
    return _joined("or", _factored(found), NOTHING)


def _factored(parts: set[Language]) -> set[Language]:
    """Factor out shared first letters, so that a long list of names becomes a tree.

    It works one level at a time, as `after` opens it: all at once would recurse as deep as names
    are long.
    """
    rests: dict[Language, list[Language]] = {}
    others: set[Language] = set()
    for part in parts:
        if part.kind == "one":
            rests.setdefault(part, []).append(EMPTY)
        elif part.kind == "then" and part.parts[0].kind == "one":
            rests.setdefault(part.parts[0], []).append(part.parts[1])
        else:
            others.add(part)
    return others | {
        then(head, _joined("or", _flat("or", tails), NOTHING)) for head, tails in rests.items()
    }


def both(*parts: Language) -> Language:
    found = _flat("and", parts) - {_ALL, ANY}
    return NOTHING if NOTHING in found else _joined("and", found, _ALL)


def _flat(kind: str, parts: Iterable[Language]) -> set[Language]:
    found: set[Language] = set()
    for part in parts:
        found |= set(part.parts) if part.kind == kind else {part}
    return found


def _joined(kind: str, parts: set[Language], without: Language) -> Language:
    if len(parts) <= 1:
        return next(iter(parts), without)
    return _node(kind, parts=tuple(sorted(parts, key=lambda part: part.serial)))


@functools.lru_cache(maxsize=50_000)
def after(language: Language, letter: str) -> Language:
    """Return the rests of the names that begin with the letter."""
    if language.kind == "one":
        return EMPTY if language.mask & _bit(letter) else NOTHING
    if language.kind == "star":
        return then(after(language.parts[0], letter), language)
    if language.kind == "not":
        return invert(after(language.parts[0], letter))
    if language.kind == "then":
        first, rest = language.parts
        if first.kind == "one":
            return _opened(rest) if first.mask & _bit(letter) else NOTHING
        found = then(after(first, letter), rest)
        return either(found, after(rest, letter)) if first.nullable else found
    if language.kind == "or":
        return either(*(after(part, letter) for part in language.parts))
    if language.kind == "and":
        return both(*(after(part, letter) for part in language.parts))
    return NOTHING


def _opened(rest: Language) -> Language:
    return either(*rest.parts) if rest.kind == "or" else rest


def after_text(language: Language, prefix: str) -> Language:
    """Return the rests of the names that begin with the prefix."""
    return functools.reduce(after, prefix, language)


def example(language: Language) -> str | None:
    """Return the shortest name of at least one letter; None if there is none. Raises Undecided."""
    seen = {language}
    queue = deque([("", language)])
    while queue:
        name, rest = queue.popleft()
        for letter in _representatives(rest):
            following = after(rest, letter)
            if following.nullable:
                return name + letter
            if following is not NOTHING and following not in seen:
                seen.add(following)
                queue.append((name + letter, following))
        if len(seen) > MOST_STATES:
            raise Undecided
    return None


@functools.lru_cache(maxsize=5000)
def _representatives(language: Language) -> tuple[str, ...]:
    """Return one letter for each group of letters that the language does not distinguish."""
    masks = sorted(language.masks)
    groups: dict[tuple[bool, ...], str] = {}
    for letter in ALPHABET:
        groups.setdefault(tuple(bool(mask & _bit(letter)) for mask in masks), letter)
    return tuple(groups.values())


@functools.cache
def _bit(letter: str) -> int:
    at = ALPHABET.find(letter)
    return 0 if at < 0 else 1 << at
