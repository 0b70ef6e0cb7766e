"""How producers would really be kept out of the source: as configured, or by what replaces it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

_DOES = {
    "acl": "Access rules deny WRITE on the source's topics.",
    "webhook": "A webhook is called, which keeps producers out.",
    "command": "A command is run, which keeps producers out.",
    "person": "A person keeps producers out: stop them, or take away their credentials or their "
    "network path to {source}. Then confirm the step.",
    "none": "Nothing keeps producers out, on purpose: see to it outside of Understudy.",
}


class EffectiveFence(NamedTuple):
    """`how` is what will be done, in the words of `failover.fence`."""

    how: str
    sentence: str


def effective_fence(
    seen: Mapping[str, Any] | None, *, how: str, fallback: str, source: str
) -> EffectiveFence:
    """`seen` is the fence of a plan, None where the source could not be asked about it."""
    if how != "acl":
        return EffectiveFence(how, _DOES[how].format(source=source))
    if seen is None:
        words = (
            f"Whether access rules can fence {source} is unknown, since it could not be asked. A "
            f"source that does not answer is not fenced: keep producers away from it."
        )
        return EffectiveFence(how, words)
    why = str(seen["refused"])
    if not why and seen["bare"] and seen["everybody"] is None:
        why = (
            "some topics have no access rule, and the first one could shut out their readers "
            "(allow.everyone.if.no.acl.found is set)."
        )
    if not why:
        return EffectiveFence(how, _DOES[how])
    does = _DOES[fallback].format(source=source)
    return EffectiveFence(fallback, f"Access rules cannot fence {source}: {why} {does}")
