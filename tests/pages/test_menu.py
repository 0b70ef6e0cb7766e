"""The counts in the menu are those of its reader, at this moment."""

from __future__ import annotations

import re
from datetime import timedelta

from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from mirrors.models import AccessGrant, Flow
from monitoring.models import Alert, Silence
from tests.pages import world
from tests.pages.conftest import As


def counts(client: Client) -> dict[str, int]:
    found = re.findall(r'data-count="(\w+)"[^>]*>(\d+)<', client.get("/help/").content.decode())
    return {name: int(number) for name, number in found}


def firing(flow: Flow) -> None:
    Alert.objects.create(
        rule_name="r", subject=f"flow:{flow.pk}", flow=flow, severity="warning", state="firing"
    )


def test_each_reader_has_counts_of_their_own_and_a_silence_only_while_it_lasts(
    signed_in: As,
) -> None:
    one = world.flow(world.cluster("a"), world.cluster("b"))
    other = world.flow(world.cluster("c"), world.cluster("d"))
    firing(one)
    firing(other)
    admin, of_one, of_the_other = signed_in("admin"), signed_in("nobody"), Client()
    AccessGrant.objects.create(
        user=User.objects.get(username="the-nobody"), role="viewer", scope="flow", flow=one
    )
    person = User.objects.create(username="ann")
    AccessGrant.objects.create(user=person, role="viewer", scope="cluster", cluster=other.source)
    of_the_other.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    for _ in range(2):
        assert counts(admin).items() >= {"flows": 2, "clusters": 4, "alerts": 2}.items()
        for limited in (of_one, of_the_other):
            assert counts(limited).items() >= {"flows": 1, "clusters": 2, "alerts": 1}.items()
    now = timezone.now()
    silence = Silence.objects.create(flow=one, ends_at=now + timedelta(hours=1), who="t")
    assert [counts(who)["alerts"] for who in (admin, of_one, of_the_other)] == [1, 0, 1]
    Silence.objects.filter(pk=silence.pk).update(ends_at=now)
    assert [counts(who)["alerts"] for who in (admin, of_one, of_the_other)] == [2, 1, 1]
    other.delete()
    assert counts(of_the_other).items() >= {"flows": 0, "clusters": 1, "alerts": 0}.items()


def test_without_any_grant_no_count_is_shown(signed_in: As) -> None:
    assert counts(signed_in("nobody")).keys() <= {"alerts"}
