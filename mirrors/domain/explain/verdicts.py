"""What the rules of a flow say of one name, in order, and the fix of the first that says no."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from mirrors.domain.filters import RuleVerdict


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explanation:
    """`fix` is None where nothing says no, or nothing can be done."""

    name: str
    replicated: bool
    reason: str
    rules: tuple[RuleVerdict, ...]
    fix: str | None


def explain(
    name: str, rules: Sequence[RuleVerdict], fixes: Mapping[str, str], *, carried: str = ""
) -> Explanation:
    """`carried` is the reason where no rule says no; the first that says yes by default."""
    failed = next((rule for rule in rules if rule.passed is False), None)
    passed = next((rule.reason for rule in rules if rule.passed), "no rule was asked")
    fix = fixes.get(failed.rule, "").format(name=name) if failed is not None else ""
    return Explanation(
        name=name,
        replicated=failed is None,
        reason=failed.reason if failed is not None else carried or passed,
        rules=tuple(rules),
        fix=fix or None,
    )
