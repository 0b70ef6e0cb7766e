"""Which object an address is about, and which addresses people with grants on parts may use.

It denies by default: an address that is not declared here needs its right on everything.

- OBJECTS: the right is demanded on the object that the address names. A hidden one is not found.
- LISTS: each row is filtered by what the person may view.
- BODIES: the request names its objects in its body, and the view demands the right on each.
"""

from __future__ import annotations

import dataclasses
import re

_KEY = re.compile(r"<(?:\w+:)?\w+>|\(\?P<\w+>")
_SIGNS = re.compile(r"\\Z|[\^$?]")
_REST = "api/v1/"


@dataclasses.dataclass(frozen=True)
class Object:
    """A model by its label, the field by which addresses name it, and the parts that hold it."""

    model: str
    field: str = "pk"
    parts: tuple[str, ...] = ("pk",)


# By the text of an address before its first key; REST without `api/v1/`.
OBJECTS: dict[str, Object] = {
    "flows/": Object("mirrors.Flow", parts=("flow_id", "pk")),
    "clusters/": Object("mirrors.Cluster", "alias", ("alias",)),
    "runners/": Object("mirrors.Runner", "name", ("name",)),
    "failovers/": Object("mirrors.FailoverRun", parts=("run_id", "pk")),
    "failbacks/": Object("mirrors.Failback", parts=("failback_id", "pk")),
    "comparisons/": Object("mirrors.Comparison", parts=("comparison_id", "pk")),
    "drills/": Object("mirrors.Drill"),
    "drills/runs/": Object("mirrors.DrillRun"),
    "drill-runs/": Object("mirrors.DrillRun"),
    "certificates/": Object("mirrors.Certificate", "number", ("number",)),
    "approvals/": Object("mirrors.RuleWaiver"),
    "tests/": Object("mirrors.ClusterTest"),
    "topic-previews/": Object("mirrors.TopicPreview"),
    "alerts/": Object("monitoring.Alert"),
    "alerts/silences/": Object("monitoring.Silence"),
    "silences/": Object("monitoring.Silence"),
    "alerts/rules/": Object("monitoring.AlertRule"),
    "alert-rules/": Object("monitoring.AlertRule"),
    "alerts/deliveries/": Object("monitoring.Delivery"),
    "deliveries/": Object("monitoring.Delivery"),
}
LISTS = frozenset(
    [
        *("", "search/", "topology/", "metrics", "schedules/", "costs/", "audit/", "approvals/"),
        *("flows/", "clusters/", "runners/", "groups/", "consumer-groups/", "tests/"),
        *("failovers/", "failbacks/", "comparisons/", "certificates/", "certificates/evidence/"),
        *("drills/", "drills/schedules/", "drills/evidence.json", "drill-runs/"),
        *("topic-previews/", "alerts/", "alerts/rules/", "alert-rules/", "silences/"),
        *("deliveries/", "exports/mm2.properties"),
        # The same for everybody.
        *("help/", "docs/", "schema/", "alerts/runbooks/", "certificates/keys/", "templates/"),
        # One's own.
        *("account/tokens/", "tokens/"),
    ]
)
BODIES = frozenset(
    [
        *("failovers/", "failbacks/", "comparisons/", "drills/", "drill-runs/", "silences/"),
        *("flows/", "topic-previews/", "offsets/translate/", "exports/", "approvals/request/"),
        *("add/flow/", "add/comparison/", "add/drill/", "alerts/silences/add/"),
        *("certificates/verify/", "account/tokens/", "tokens/"),
    ]
)


def literal_of(route: str) -> str:
    """The text of a route before its first key; REST without its root."""
    key = _KEY.search(route)
    return _SIGNS.sub("", route[: key.start()] if key else route).removeprefix(_REST)


def object_of(route: str) -> Object | None:
    """The object that an address names; None if it names none that has grants."""
    return OBJECTS.get(literal_of(route)) if _KEY.search(route) else None


def is_open_to_grants(route: str, *, reading: bool) -> bool:
    """Whether a person with grants on parts may use an address that names no object.

    A page with a form is read by those who may send it.
    """
    literal = literal_of(route)
    return literal in BODIES or (reading and literal in LISTS)
