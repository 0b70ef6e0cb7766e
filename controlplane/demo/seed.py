"""What a fresh demo's database holds: a person, a token, two clusters, a runner, two flows.

Runs as a process of its own (`python -m django demo --seed`): migrates, says so, waits for the
facts on standard input (the brokers choose their ports meanwhile), seeds, answers. One JSON object
a line each way, so no secret is an argument or in a log. Again, it changes only what is not as it
should.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import Any, TextIO

from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import DatabaseError, connection
from knox.crypto import hash_token
from knox.models import AuthToken

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.models import Cluster, Flow
from mirrors.services import clusters
from mirrors.services.flows import settings as flow_settings
from mirrors.services.runners import settings as runners

WHO = "demo"


def serve(facts_in: TextIO, answers_out: TextIO) -> int:
    """Migrate, read the facts, seed. The last line is the answer, or says what went wrong."""

    def answer(facts: dict[str, Any]) -> None:
        answers_out.write(json.dumps(facts) + "\n")
        answers_out.flush()

    try:
        call_command("migrate", interactive=False, verbosity=0)
        answer({"migrated": True})
        if line := facts_in.readline():
            answer(seed_demo(json.loads(line)))
    except DatabaseError as error:
        reason = str(error).strip().partition("\n")[0]
        answer({"error": f"The database {_of()} does not work: {reason}"})
        return 1
    except UnderstudyError as error:
        answer({"error": error.message})
        return 1
    return 0


def _of() -> str:
    settings = connection.settings_dict
    return f"{settings['NAME']} at {settings['HOST']}" if settings["HOST"] else settings["NAME"]


def seed_demo(facts: dict[str, Any]) -> dict[str, Any]:
    """Create rows from the facts: `username`, `password`, `token`, `clusters` (alias to address).

    `kept` in the result: the flows of an earlier demo in this database.
    """
    token = _user(facts["username"], facts["password"], facts["token"])
    rows = [_cluster(alias, address) for alias, address in facts["clusters"].items()]
    runners.ensure_default_runner(who=WHO)
    kept = list(Flow.objects.values_list("pk", flat=True))
    ids = [_flow(source, target) for source, target in itertools.permutations(rows, 2)]
    return {"token": token, "flows": ids, "kept": kept}


def _user(username: str, password: str, token: str) -> str:
    user, created = User.objects.get_or_create(
        username=username, defaults={"is_superuser": True, "is_staff": True}
    )
    if created or not user.check_password(password):
        user.set_password(password)
        user.save(update_fields=["password"])
    if token and AuthToken.objects.filter(user=user, digest=hash_token(token)).exists():
        return token
    _, fresh = AuthToken.objects.create(user=user, expiry=None)
    return str(fresh)


def _cluster(alias: str, address: str) -> Cluster:
    known = Cluster.objects.filter(alias=alias).first()
    if known is None:
        spec = ClusterSpec(alias=alias, bootstrap_servers=address)
        return clusters.create_cluster(spec=spec, who=WHO)
    spec = dataclasses.replace(known.spec, bootstrap_servers=address)
    return clusters.update_cluster(cluster=known, spec=spec, who=WHO)


def _flow(source: Cluster, target: Cluster) -> int:
    known = Flow.objects.filter(source=source, target=target).first()
    made = known or flow_settings.create_flow(
        source=source,
        target=target,
        properties={"sync.group.offsets.enabled": "true"},
        who=WHO,
    )
    return made.pk
