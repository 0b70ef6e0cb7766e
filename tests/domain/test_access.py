"""Rights, roles and grants: what each role may do, and where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.access.grants import INSTALLATION, Grant, GrantScope, Subject, may, reach
from mirrors.domain.access.rights import OF_EVERYTHING, ROLES, Right, rights_everywhere

FLOW = Subject(name="a->b", flow=1, clusters=(10, 20), labels=frozenset({"orders"}))
PAIR = Subject(name="a->b", clusters=(10, 20))
CLUSTER = Subject(name="a", clusters=(10,))
SUBJECTS = (FLOW, PAIR, CLUSTER, INSTALLATION)

grants = st.builds(
    Grant,
    role=st.sampled_from(sorted(ROLES)),
    scope=st.just(GrantScope.EVERYTHING),
) | st.one_of(
    st.builds(Grant, role=st.sampled_from(sorted(ROLES)), scope=st.just(scope), of=of)
    for scope, of in (
        (GrantScope.CLUSTER, st.sampled_from([10, 20, 30])),
        (GrantScope.FLOW, st.sampled_from([1, 2])),
        (GrantScope.LABEL, st.sampled_from(["orders", "other"])),
    )
)


def test_no_role_of_today_loses_a_right() -> None:
    assert rights_everywhere(["viewer"]) == {Right.VIEW, Right.SCRAPE}
    operator = {Right.VIEW, Right.SCRAPE, Right.OPERATE, Right.EDIT}
    assert rights_everywhere(["operator"]) == operator
    assert rights_everywhere(["admin"]) == set(Right)
    assert rights_everywhere(["viewer", "approver"]) == {Right.VIEW, Right.SCRAPE, Right.APPROVE}
    assert rights_everywhere(["a group of somebody else"]) == set()
    assert set(OF_EVERYTHING) == set(ROLES) - {"editor"}


@pytest.mark.parametrize("role", sorted(ROLES))
@pytest.mark.parametrize("right", Right)
def test_a_role_on_one_flow_is_that_role_there_and_nothing_elsewhere(
    role: str, right: Right
) -> None:
    held = [Grant(role, GrantScope.FLOW, 1)]
    assert may(held, right, FLOW)[0] is (right in ROLES[role])
    other = Subject(name="b->c", flow=2, clusters=(20, 30))
    for subject in (other, PAIR, CLUSTER, INSTALLATION):
        assert may(held, right, subject)[0] is False


@pytest.mark.parametrize("right", Right)
def test_a_grant_on_one_of_two_clusters_only_shows_the_flow(right: Right) -> None:
    one = [Grant("admin", GrantScope.CLUSTER, 10)]
    allowed, why = may(one, right, FLOW)
    assert allowed is (right in (Right.VIEW, Right.SCRAPE))
    assert allowed or "needs both" in why
    assert may([*one, Grant("admin", GrantScope.CLUSTER, 20)], right, FLOW)[0]
    assert may(one, right, PAIR)[0] is False
    assert may(one, right, CLUSTER)[0]


def test_a_refusal_names_the_role_the_subject_and_what_the_person_has() -> None:
    assert may([], Right.OPERATE, FLOW)[1] == "This needs the role operator on a->b; you have none."
    held = [Grant("viewer"), Grant("editor", GrantScope.FLOW, 2)]
    words = "This needs the role operator on a->b; you have viewer, and grants on 1 part."
    assert may(held, Right.OPERATE, FLOW)[1] == words


@given(st.lists(grants, max_size=6), st.lists(grants, max_size=3))
def test_law_a_further_grant_takes_nothing(held: list[Grant], more: list[Grant]) -> None:
    for subject in SUBJECTS:
        for right in Right:
            if may(held, right, subject)[0]:
                assert may([*held, *more], right, subject)[0]


@given(st.lists(grants, max_size=6))
def test_law_only_a_grant_of_everything_gives_a_right_on_the_installation(
    held: list[Grant],
) -> None:
    for right in Right:
        assert may(held, right, INSTALLATION)[0] is reach(held, right).everything
