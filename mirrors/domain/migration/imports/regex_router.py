r"""Translates Connect's transform `RegexRouter` of a flow into a rule of `topic.rename`.

MM2 names the remote topic first (`a.orders`), then applies transforms. So the expression sees
remote names, while a rule of `topic.rename` sees those of source topics: what stands for alias and
separator is removed from the expression, and its groups become texts.

RegexRouter replaces the first part that matches (`replaceFirst`), once the whole name matches. A
rule replaces the whole name. Both are the same only for expressions whose first match is whole.
"""

from __future__ import annotations

import re

from mirrors.domain.migration.imports.transform_classes import RemoteNames
from mirrors.domain.patterns.java_to_re2 import translate_groups, unquote
from mirrors.domain.patterns.matcher import compile_re2
from mirrors.domain.patterns.name_sets import ANY, Undecided, both, example, text, then
from mirrors.domain.patterns.parser import of_patterns
from mirrors.domain.patterns.renames import RenameRule, check_renames, template_parts

_EVERYTHING = (".*", ".+", "(.*)", "(.+)")
_QUANTIFIERS = "*+?{"
# What takes all that is left, and a plain text after it.
_GREEDY_END = re.compile(
    r"(?<!\\)(?:\(\.[*+]\)|\.[*+])(?![?+*{])(?:[A-Za-z0-9_.-]|\\[^A-Za-z0-9])*\Z"
)
_PLAIN = re.compile(r"(?:[A-Za-z0-9_.()-]|\\[^A-Za-z0-9])*\Z")


def rename_rule(regex: str, replacement: str, names: RemoteNames) -> RenameRule | None:
    """Return the rule; None if no remote topic of the flow matches.

    Raises ValueError with a clause why there is no rule with the same effect.
    """
    rule = RenameRule(regex, replacement)
    check_renames([rule])
    parts = template_parts(rule)
    pattern = _whole(unquote(regex))
    prefix = names.alias + names.separator
    texts: list[str] = []
    if prefix and pattern in _EVERYTHING:
        pattern, parts = ".+", tuple(0 if isinstance(part, int) else part for part in parts)
    elif prefix:
        found = _without_prefix(pattern, names)
        if found is None:
            return None
        pattern, texts = found
    result = RenameRule(pattern, "".join(_translated(part, texts, prefix) for part in parts))
    check_renames([result])
    return result


def _translated(part: str | int, texts: list[str], prefix: str) -> str:
    """Return a part of the template for source topics. `texts`: of the groups that were removed."""
    if isinstance(part, str):
        return part
    if part == 0:
        return f"{prefix}$0"
    return texts[part - 1] if part <= len(texts) else f"${part - len(texts)}"


def _whole(pattern: str) -> str:
    """Return the expression without anchors, if its first match is whole. Raises ValueError."""
    bare = pattern.removeprefix("^")
    ends = bare.endswith("$") and not bare.endswith("\\$")
    bare = bare[:-1] if ends else bare
    if "(?" in bare or _has_alternatives(bare):
        raise ValueError(
            "the expression has alternatives outside of groups, or a group with (?: it is not "
            "translated"
        )
    if not ends and not _PLAIN.match(bare) and not _GREEDY_END.search(bare):
        raise ValueError(
            "MirrorMaker 2 replaces the first part of a name that matches, which can be shorter "
            "than the name; an expression with $ at its end always matches the whole name"
        )
    return bare


def _has_alternatives(pattern: str) -> bool:
    return any(letter == "|" and depth == 0 for letter, depth in _letters(pattern))


def _letters(pattern: str) -> list[tuple[str, int]]:
    """Return letters and escapes with their depth in groups; those in classes have depth -1."""
    found: list[tuple[str, int]] = []
    depth, at, in_class = 0, 0, False
    while at < len(pattern):
        step = 2 if pattern[at] == "\\" else 1
        letter = pattern[at : at + step]
        if in_class:
            in_class = letter != "]"
            found.append((letter, -1))
        else:
            depth -= letter == ")"
            in_class = letter == "["
            found.append((letter, -1 if in_class else depth))
            depth += letter == "("
        at += step
    return found


def _without_prefix(pattern: str, names: RemoteNames) -> tuple[str, list[str]] | None:
    """Return the expression for source topics, and the texts of groups in the part before it.

    None if the expression matches no name with this alias. Raises ValueError.
    """
    prefix = names.alias + names.separator
    try:
        if example(both(of_patterns([pattern]), then(text(prefix), ANY))) is None:
            return None
    except Undecided:
        pass
    rest = _after_text(pattern, prefix)
    if rest is not None:
        return (rest, []) if rest else None
    at = 0
    for letter, depth in _letters(pattern):
        at += len(letter)
        if depth == 0 and letter == f"\\{names.separator}":
            before, after = pattern[: at - len(letter)], pattern[at:]
            return _after_part(before, after, names)
    raise ValueError(
        f"the expression does not begin with the alias {names.alias} and {names.separator}, so "
        "what it does to names of source topics is unclear"
    )


def _after_text(pattern: str, prefix: str) -> str | None:
    """Return what is left after a plain text at the beginning; None if it does not begin so."""
    at = 0
    for letter in prefix:
        step = 2 if pattern[at : at + 1] == "\\" else 1
        atom = pattern[at : at + step]
        is_same = atom in (letter, ".") or (atom == f"\\{letter}" and not letter.isalnum())
        if not is_same or pattern[at + step : at + step + 1] in tuple(_QUANTIFIERS):
            return None
        at += step
    return pattern[at:]


def _after_part(before: str, after: str, names: RemoteNames) -> tuple[str, list[str]] | None:
    """`before` stands for the alias, if it cannot match a separator."""
    unclear = ValueError(
        f"the expression can match {names.separator} of alias and topic in several ways, so what "
        "it does to names of source topics is unclear"
    )
    if names.separator in names.alias or after[:1] in tuple(_QUANTIFIERS):
        raise unclear
    try:
        longer = both(of_patterns([before]), then(ANY, then(text(names.separator), ANY)))
        if example(longer) is not None:
            raise unclear
    except Undecided:
        raise unclear from None
    found = compile_re2(translate_groups(before)[0]).fullmatch(names.alias)
    if found is None or not after:
        return None
    return after, [group or "" for group in found.groups()]
