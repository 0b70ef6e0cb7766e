"""Every address by method by identity, against what the declarations of roles and addresses give.

The expected answers come from `domain.access` (data) and the marks of the views. The two teams have
equal flows; people with grants on parts have them on the first one only.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, resolve

from mirrors.domain.access.addresses import is_open_to_grants, literal_of, object_of
from mirrors.domain.access.grants import INSTALLATION, Grant, Subject, may, reach
from mirrors.domain.access.rights import OF_EVERYTHING, ROLES, Right
from mirrors.models import AccessGrant, Cluster, ClusterTest, Flow, Role, has_right
from mirrors.models.access.grants import own_request, permitted
from mirrors.services.access import gate
from mirrors.services.users import ensure_person
from tests.api.test_access import REST, VALUES, handled
from tests.pages import world
from tests.two_teams import FAR, HIDDEN, LABEL, first_team, second_team

_FAR = {key: str(int(text) + FAR) if text == "1" else text for key, text in VALUES.items()}
_FAR["number"] = "c0ffee77"
# They also act on the flow of the other direction.
BOTH_WAYS = {("flows/", "failback"), ("failbacks/", "switch"), ("flows/", "reverse")}
IDENTITIES = {
    "nobody": (),
    **{f"{role} of everything": ((role, "everything"),) for role in ROLES},
    **{f"{role} of a flow": ((role, "flow"),) for role in ROLES},
    "operator of a label": (("operator", "label"),),
    "admin of one cluster": (("admin", "source"),),
    "admin of the other cluster": (("admin", "target"),),
    "admin of both clusters": (("admin", "source"), ("admin", "target")),
    "viewer of everything, operator of a flow": (("viewer", "everything"), ("operator", "flow")),
    "editor of a flow, approver of a label": (("editor", "flow"), ("approver", "label")),
}


@dataclasses.dataclass(frozen=True)
class Address:
    route: str
    view: Any

    def at(self, values: dict[str, str]) -> str:
        text = re.sub(r"\(\?P<(\w+)>(?:[^()]|\([^()]*\))*\)", lambda m: values[m[1]], self.route)
        text = re.sub(r"<(?:(\w+):)?(\w+)>", lambda m: values.get(m[1] or "") or values[m[2]], text)
        return "/" + re.sub(r"\\Z|[$^?\\]", "", text).replace("//", "/")

    @property
    def is_rest(self) -> bool:
        return hasattr(self.view, "cls")

    @property
    def methods(self) -> tuple[str, ...]:
        """What one may ask of it."""
        return REST if self.is_rest else ("get", "post")

    @property
    def answered(self) -> list[str]:
        """Without those for which it has no handler: they change nothing for anybody."""
        return handled(self.view)

    def right(self, method: str) -> Right | None:
        """The right that the view's marks demand."""
        if not self.is_rest:
            marked = getattr(self.view, "rights", None)
            marked = marked or getattr(getattr(self.view, "view_class", None), "rights", None)
            demanded = (marked or (Right.VIEW, Right.ADMINISTER))[method != "get"]
            return demanded(VALUES) if callable(demanded) else demanded
        given = {**vars(self.view.cls), **getattr(self.view, "initkwargs", {})}
        kind = "read_right" if method == "get" else "write_right"
        usual = Right.VIEW if method == "get" else Right.ADMINISTER
        usual = given.get(kind, getattr(self.view.cls, kind, usual))
        action = getattr(self.view, "actions", {}).get(method)
        found: Right = getattr(self.view.cls, "action_rights", {}).get(action, usual)
        return found


def addresses(resolver: Any = None, prefix: str = "") -> Iterator[Address]:
    for entry in (resolver or get_resolver()).url_patterns:
        route = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            if not route.startswith("admin/"):
                yield from addresses(entry, route)
        elif isinstance(entry, URLPattern):
            yield Address(route, entry.callback)


def closed() -> list[Address]:
    """Without those that need no account."""
    opened = ("api/v1/^tokens/?$", "^api/", "logout/")
    return [
        one
        for one in addresses()
        if (one.is_rest or getattr(one.view, "login_required", True)) and one.route not in opened
    ]


@dataclasses.dataclass(frozen=True)
class Team:
    """The values of a team's addresses, and what its objects are about."""

    values: dict[str, str]
    cluster: int
    flow: Subject
    opposite: Subject

    def subject(self, label: str) -> Subject:
        if label in ("mirrors.Cluster", "mirrors.ClusterTest"):
            return Subject(clusters=(self.cluster,))
        if label == "mirrors.TopicPreview":
            return Subject(clusters=self.flow.clusters)
        return INSTALLATION if label == "mirrors.Runner" else self.flow

    def may_view(self, label: str, grants: list[Grant]) -> bool:
        """A flow shows its clusters and its runner."""
        seen = [self.subject(label), self.flow, self.opposite]
        if label == "mirrors.TopicPreview":
            seen = seen[:2]
        elif label not in ("mirrors.Cluster", "mirrors.ClusterTest", "mirrors.Runner"):
            seen = seen[:1]
        return any(may(grants, Right.VIEW, one)[0] for one in seen)


def team_of(flow: Flow, values: dict[str, str]) -> Team:
    opposite = Flow.objects.get(source=flow.target, target=flow.source)
    ends = (flow.source_id, flow.target_id)
    labels = frozenset(flow.labels.values_list("name", flat=True))
    subject = Subject(flow=flow.pk, clusters=ends, labels=labels)
    other = Subject(flow=opposite.pk, clusters=ends[::-1])
    return Team(values, Cluster.objects.get(alias=values["alias"]).pk, subject, other)


@pytest.fixture
def teams(db: None, signing_key: Any) -> tuple[Team, Team]:
    first = first_team()
    second = second_team(first)
    far = {**_FAR, "alias": f"{HIDDEN}p", "name": f"{HIDDEN}d"}
    assert (first.pk, second.source.alias, second.runner.name) == (1, far["alias"], far["name"])
    return team_of(first, VALUES), team_of(second, far)


@pytest.fixture
def neighbors(db: None, signing_key: Any) -> tuple[Team, Team]:
    """Two teams that share a cluster and a runner, as most do; the second has one more runner."""
    first = first_team()
    second = second_team(first, shares=True)
    assert (second.source.alias, second.target.alias) == ("primary", f"{HIDDEN}b")
    world.runner(f"{HIDDEN}d")
    ClusterTest.objects.create(pk=FAR + 1, cluster=second.target, requested_by=HIDDEN)
    far = {**_FAR, "alias": f"{HIDDEN}b", "name": f"{HIDDEN}d"}
    return team_of(first, VALUES), team_of(second, far)


def identity(name: str) -> tuple[Client, list[Grant]]:
    """A signed-in person with these grants; those of everything as roles, where there is one."""
    user = ensure_person(username="tester", password=None, role=Role.NONE)
    flow, found = Flow.objects.get(pk=1), []
    for role, part in IDENTITIES[name]:
        if part == "everything" and role in OF_EVERYTHING:
            user.groups.add(Group.objects.get(name=role))
            found += [Grant(held) for held in OF_EVERYTHING[role]]
            continue
        of: dict[str, Any] = {
            "everything": {},
            "flow": {"flow": flow},
            "label": {"label": LABEL},
            "source": {"cluster": flow.source},
            "target": {"cluster": flow.target},
        }[part]
        scope = "cluster" if part in ("source", "target") else part
        row = AccessGrant.objects.create(user=user, role=role, scope=scope, created_by="a", **of)
        found.append(row.grant)
    client = Client(raise_request_exception=False)
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client, found


def last_word(route: str) -> str:
    """The last word of a route."""
    return re.sub(r"\\Z|[$^?]", "", route).strip("/").rpartition("/")[2]


def expected(address: Address, method: str, team: Team, grants: list[Grant]) -> str:
    """allowed, forbidden (403) or hidden (404), from the declarations."""
    right = address.right(method)
    if right is None or may(grants, right, INSTALLATION)[0]:
        return "allowed"
    named = object_of(address.route)
    if named is None:
        is_open = is_open_to_grants(address.route, reading=method == "get")
        return "allowed" if is_open and not reach(grants, right).is_nothing else "forbidden"
    if reach(grants, Right.VIEW).is_nothing:
        return "forbidden"
    if not team.may_view(named.model, grants):
        return "hidden"
    if right is Right.VIEW:
        return "allowed"
    subjects = [team.subject(named.model)]
    if method == "post" and (literal_of(address.route), last_word(address.route)) in BOTH_WAYS:
        subjects.append(team.opposite)
    return "allowed" if all(may(grants, right, one)[0] for one in subjects) else "forbidden"


def differences(
    ask: Callable[[Address, str, str], str],
    teams: Sequence[Team],
    grants: list[Grant],
    methods: Callable[[Address], Iterable[str]],
) -> str:
    found = []
    for address in closed():
        # An address that names no object, or one that both have, is the same for both teams.
        of_teams = {address.at(team.values): team for team in reversed(teams)}
        for path, team in of_teams.items():
            for method in methods(address):
                want, got = expected(address, method, team, grants), ask(address, method, path)
                if got != want:
                    found.append(f"{method} {path}: {got} instead of {want}")
    return "\n".join(found)


def request_to(client: Client, method: str, path: str) -> Any:
    given = {} if method == "get" else {"content_type": "application/json", "data": {}}
    return getattr(client, method)(path, **given)


def test_the_gate_of_every_address_answers_as_declared(
    teams: tuple[Team, Team], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Many addresses name the same object: whether the person may view it is one question.
    monkeypatch.setattr(gate, "visible_row", functools.cache(gate.visible_row))
    # What acts on both directions asks for the second one in its view.
    one_way = [dataclasses.replace(team, opposite=team.flow) for team in teams]
    found = {}
    for name in IDENTITIES:
        with transaction.atomic():
            _, grants = identity(name)
            ask = gate_for(User.objects.get(username="tester"))
            found[name] = differences(ask, one_way, grants, lambda address: address.methods)
            transaction.set_rollback(True)
    assert len(found) == len(IDENTITIES) > 10
    assert not any(found.values()), found


def gate_for(user: User) -> Callable[[Address, str, str], str]:
    """What the gate answers this person."""

    # Methods that write often demand the same right: for the gate that is one question.
    @functools.cache
    def answer(right: Right, route: str, path: str, *, reading: bool) -> str:
        try:
            with own_request():
                gate.check(user, right, route, resolve(path).kwargs, reading=reading)
        except PermissionDenied:
            return "forbidden"
        except Http404:
            return "hidden"
        return "allowed"

    def ask(address: Address, method: str, path: str) -> str:
        if (right := address.right(method)) is None:
            return "allowed"
        return answer(right, address.route, path, reading=method == "get")

    return ask


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name", ["editor of a flow, approver of a label", "admin of the other cluster"]
)
def test_every_address_answers_as_declared_and_shows_nothing_of_the_other_team(
    neighbors: tuple[Team, Team], name: str
) -> None:
    """The same with the views themselves; effects of each request are undone.

    Which methods without a handler are allowed is a question to the gate alone: the test before.
    """
    client, grants = identity(name)
    root = Client(raise_request_exception=False)
    root.force_login(ensure_person(username="root-admin", password=None, role=Role.ADMIN))
    shown: list[str] = []

    def ask(address: Address, method: str, path: str) -> str:
        code, body = answer_to(client, method, path)
        shown.extend(names_of_the_other_team(method, path, code, body))
        names_the_other = object_of(address.route) is not None and f"/{FAR + 1}" in path
        # Absent for everybody: there is no such row in this world.
        if code == 404 and not names_the_other and answer_to(root, method, path)[0] == 404:
            return "allowed"
        return {403: "forbidden", 404: "hidden"}.get(code, "allowed")

    assert all(address.answered for address in closed())
    assert not differences(ask, neighbors, grants, lambda address: address.answered)
    assert not shown, "\n".join(shown)


def answer_to(client: Client, method: str, path: str) -> tuple[int, str]:
    """Status and body; what the request changed is undone."""
    with transaction.atomic():
        answer = request_to(client, method, path)
        body = answer.getvalue().decode(errors="replace")
        transaction.set_rollback(True)
    return answer.status_code, body


def names_of_the_other_team(method: str, path: str, code: int, body: str) -> list[str]:
    """The first place of the answer that has one; a refusal may repeat its own address."""
    found = re.search(f".{{0,60}}{HIDDEN}.{{0,30}}", body)
    if found is None or (HIDDEN in path and code != 200):
        return []
    return [f"{method} {path} ({code}): {found[0]!r}"]


# --- what lists, pages and files show ---


# Lists as files, and questions about the hidden flow by its names.
_ASKED = (
    *(f"/{path}/?as={form}" for path in ("flows", "clusters", "runners", "groups", "audit",
      "failovers", "comparisons", "drills", "drills/schedules", "alerts", "alerts/rules",
      "approvals", "costs", "schedules", "topology") for form in ("csv", "json")),
    *(f"/search/?q={word}{form}" for word in ("h", "7", "orders", "primary")
      for form in ("", "&as=json")),
    "/metrics?partitions=1", "/exports/mm2.properties", "/drills/evidence.json",
    "/api/v1/flows/?search=hidden", "/api/v1/consumer-groups/?search=h",
    f"/alerts/runbooks/stale/?flow={FAR + 1}", f"/add/flow/?source={HIDDEN}b",
    f"/add/comparison/?flow={FAR + 1}", f"/add/drill/?flow={FAR + 1}",
    f"/add/flow/?preview={FAR + 1}", f"/groups/?flow={FAR + 1}",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "least"), [("operator of a label", 0), ("viewer of everything", 20)]
)
def test_only_who_may_view_everything_reads_anything_of_the_other_team(
    neighbors: tuple[Team, Team], name: str, least: int
) -> None:
    client, _ = identity(name)
    shown = [
        name
        for path in _ASKED
        for name in names_of_the_other_team("get", path, *answer_to(client, "get", path))
    ]
    assert len(shown) >= least
    assert least or not shown, "\n".join(shown)


def test_a_global_viewer_still_sees_everything(teams: tuple[Team, Team]) -> None:
    client, _ = identity("viewer of everything")
    names = {row["name"] for row in client.get("/api/v1/flows/").json()["results"]}
    assert {"primary->backup", f"{HIDDEN}p->{HIDDEN}b"} <= names


@pytest.mark.parametrize(
    "address", ["failovers", "comparisons", "drills", "drill-runs", "failbacks"]
)
def test_a_hidden_flow_in_a_body_does_not_exist_and_a_visible_one_needs_the_right(
    teams: tuple[Team, Team], address: str
) -> None:
    client, _ = identity("editor of a flow, approver of a label")
    AccessGrant.objects.filter(role="approver").update(role="operator")

    def error_of(flow: int) -> tuple[int, Any]:
        body = {"flow": flow, "kind": "simulation", "schedule": "0 3 * * 1", "reason": "x"}
        answer = client.post(f"/api/v1/{address}/", body, content_type="application/json")
        error = answer.json().get("error", {})
        return answer.status_code, str(error.get("fields")).replace(str(flow), "N")

    assert error_of(FAR + 1) == error_of(99)
    assert error_of(99)[0] == 400
    AccessGrant.objects.update(role="approver")
    assert error_of(1)[0] == 403


def test_the_filter_of_rows_and_the_rule_agree(teams: tuple[Team, Team]) -> None:
    user = ensure_person(username="tester", password=None, role=Role.NONE)
    flow = Flow.objects.get(pk=1)
    parts: list[dict[str, Any]] = [
        {"scope": "everything"},
        {"scope": "flow", "flow": flow},
        {"scope": "label", "label": LABEL},
        {"scope": "cluster", "cluster": flow.source},
        {"scope": "cluster", "cluster": flow.target},
    ]
    flows = list(Flow.objects.all())
    for one, two in itertools.combinations_with_replacement(parts, 2):
        for roles in itertools.product(("viewer", "operator", "admin"), repeat=2):
            with transaction.atomic():
                for role, part in zip(roles, (one, two), strict=True):
                    AccessGrant.objects.create(user=user, role=role, created_by="a", **part)
                person = User.objects.get(pk=user.pk)
                for right in Right:
                    rows = set(permitted(Flow.objects.all(), person, right))
                    assert rows == {row for row in flows if has_right(person, right, row)}
                transaction.set_rollback(True)
