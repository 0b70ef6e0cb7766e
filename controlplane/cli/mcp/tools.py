"""What an assistant can ask: each tool is a GET request of the REST API with typed arguments."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal
from urllib.parse import quote

from controlplane.cli.mcp.answers import list_answer, object_answer, text_of
from mirrors.domain.runners.job_files import TopicState
from mirrors.domain.states.flows import OBSERVED
from monitoring.domain.alerts.states import ALERT

# The path below /api/v1/, and parameters; returns the body of a GET request.
Get = Callable[..., Any]
_FLOW = re.compile(r"\d{1,18}|[A-Za-z0-9._-]{1,100}->[A-Za-z0-9._-]{1,100}", re.ASCII)
_LONGEST_TEXT = 1_000


class Refused(Exception):
    """A call that is wrong; the message is one sentence for the assistant."""


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of a tool. A flow is an id (a whole number) or a name (`primary->backup`)."""

    name: str
    description: str
    kind: Literal["text", "number", "flow"] = "text"
    required: bool = False
    choices: tuple[str, ...] = ()
    most: int = 10**18 - 1

    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        types: dict[str, dict[str, Any]] = {
            "text": {"type": "string", "maxLength": _LONGEST_TEXT},
            "number": {"type": "integer", "minimum": 1, "maximum": self.most},
            "flow": {"type": ["string", "integer"]},
        }
        choices = {"enum": list(self.choices)} if self.choices else {}
        return {**types[self.kind], **choices, "description": self.description}

    def checked(self, value: Any) -> str | int:
        """The value for the request. Raises Refused."""
        text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
        if self.kind == "flow":
            if text is None or not _FLOW.fullmatch(text):
                raise Refused(
                    f"{self.name} must be the id or the name of a flow, such as 3 or "
                    "primary->backup; list_flows has them."
                )
            return text
        if self.kind == "number":
            digits = text if text and text.isascii() and text.isdecimal() else "0"
            if not 1 <= len(digits) <= 18 or not 1 <= int(digits) <= self.most:
                raise Refused(f"{self.name} must be a whole number from 1 to {self.most:,}.")
            return int(digits)
        if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_TEXT:
            raise Refused(f"{self.name} must be a text of 1 to {_LONGEST_TEXT:,} characters.")
        if self.choices and value not in self.choices:
            raise Refused(f"{self.name} must be one of {', '.join(self.choices)}.")
        return value


_PAGE = (
    Argument("page", "Which page of the list; 1 by default.", "number", most=10**9),
    Argument("limit", "Rows of a page; 50 by default.", "number", most=500),
)
_SEARCH = Argument("search", "Part of a name or reason.")
_ONE_FLOW = Argument("flow", "The flow, by id or by name.", "flow", required=True)
_ANY_FLOW = Argument("flow", "Only of this flow, by id or by name.", "flow")


@dataclasses.dataclass(frozen=True)
class Tool:
    """One GET request. Braces in `path` are arguments, all others are parameters of the request.

    - `flow_as`: how the request names a flow that is not in the path. `id`: parameter `flow`.
      `clusters`: parameters `source` and `target`.
    - `fields`: of each row of a list; all without.
    - `fixed`: further parameters of the request.
    """

    name: str
    description: str
    path: str
    arguments: tuple[Argument, ...] = ()
    is_list: bool = True
    flow_as: Literal["", "id", "clusters"] = ""
    fields: tuple[str, ...] = ()
    fixed: tuple[tuple[str, str], ...] = ()

    @property
    def every_argument(self) -> tuple[Argument, ...]:
        return (*self.arguments, *_PAGE) if self.is_list else self.arguments

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        every = self.every_argument
        return {
            "type": "object",
            "properties": {one.name: one.schema() for one in every},
            "required": [one.name for one in every if one.required],
            "additionalProperties": False,
        }

    def call(self, given: Mapping[str, Any], *, get: Get, now: Callable[[], datetime]) -> str:
        """The answer as JSON. Raises Refused, and what `get` raises."""
        values = self._checked(given)
        in_path = {name: quote(str(values.pop(name)), safe="") for name in self._in_path}
        params: dict[str, Any] = dict(self.fixed)
        flow = values.pop("flow", None)
        if flow is not None:
            params |= self._flow_params(get(f"flows/{quote(str(flow), safe='')}/"))
        if not self.is_list:
            body = get(self.path.format(**in_path), **params, **values)
            return text_of(object_answer(body, now=now()))
        page, limit = values.pop("page", 1), values.pop("limit", 50)
        params |= {**values, "page": page, "page_size": limit}
        body = get(self.path.format(**in_path), **params)
        return text_of(list_answer(body, page=page, limit=limit, fields=self.fields, now=now()))

    @property
    def _in_path(self) -> list[str]:
        return re.findall(r"\{(\w+)\}", self.path)

    def _checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        known = {one.name: one for one in self.every_argument}
        for name in given:
            if name not in known:
                raise Refused(
                    f"{self.name} has no argument {name[:100]!r}. It has: "
                    f"{', '.join(known) or 'none'}."
                )
        for one in known.values():
            if one.required and given.get(one.name) is None:
                raise Refused(f"{self.name} needs {one.name}: {one.description}")
        # Null, and an empty text, mean that an argument is not given.
        return {
            name: known[name].checked(value)
            for name, value in given.items()
            if known[name].required or value not in (None, "")
        }

    def _flow_params(self, row: dict[str, Any]) -> dict[str, Any]:
        if self.flow_as == "id":
            return {"flow": row["id"]}
        return {"source": row["source"], "target": row["target"]}


_OWED = (
    "`owed.records` are records that the target does not hold yet, with `certainty` (counted, "
    "at_most, at_least, unknown) and `as_of`; `time_lag_ms` is the age of the oldest of them."
)
TOOLS = (
    Tool(
        "list_flows",
        f"All flows with state, reason and lag. {_OWED} get_flow has all fields of one.",
        "flows/",
        (Argument("observed_state", "Only in this state.", choices=OBSERVED.names), _SEARCH),
        fields=(
            "id",
            "name",
            "source",
            "target",
            "labels",
            "desired_state",
            "observed_state",
            "reason",
            "since",
            "as_of",
            "owed",
            "stopped_partitions",
            "waiting_records",
            "dead_letters",
            "warnings",
            "proven",
            "runner",
        ),
    ),
    Tool(
        "get_flow",
        f"One flow: state, reason, settings, lag, what limits its speed. {_OWED}",
        "flows/{flow}/",
        (_ONE_FLOW,),
        is_list=False,
    ),
    Tool(
        "list_topics",
        f"The topics of a flow: why each is replicated or not, and its lag. {_OWED}",
        "flows/{flow}/topics/",
        (
            _ONE_FLOW,
            Argument("state", "Only in this state.", choices=typing.get_args(TopicState)),
            _SEARCH,
        ),
    ),
    Tool(
        "list_partitions",
        "The partitions of a flow: position, end of the source, lag. `verified_offset`: "
        "comparisons found the records below it the same on both sides, at `verified_at`. "
        f"{_OWED}",
        "flows/{flow}/partitions/",
        (_ONE_FLOW, _SEARCH),
    ),
    Tool(
        "explain_topic",
        "Whether a topic is replicated, which rule decides, and what to change.",
        "flows/{flow}/explain/",
        (_ONE_FLOW, Argument("topic", "The name of a topic of the source.", required=True)),
        is_list=False,
    ),
    Tool(
        "explain_group",
        "Whether a consumer group is synchronized, which rule decides, and what to change.",
        "flows/{flow}/explain/",
        (_ONE_FLOW, Argument("group", "The name of a consumer group.", required=True)),
        is_list=False,
    ),
    Tool(
        "list_consumer_groups",
        "Consumer groups, problems first: lag on the source, and whether each could resume on the "
        "target.",
        "consumer-groups/",
        (_ANY_FLOW, Argument("group", "Only the group with this name."), _SEARCH),
        flow_as="id",
    ),
    Tool(
        "list_group_offsets",
        "The offsets of a flow's consumer groups by partition: on the source, translated, and on "
        "the target, with the reason where one is unknown.",
        "flows/{flow}/groups/",
        (_ONE_FLOW, Argument("group", "Only the group with this name."), _SEARCH),
    ),
    Tool(
        "list_sync_tasks",
        "What a flow synchronizes beside its records (topic configs, ACLs, groups, checkpoints, "
        "heartbeats): last run, next run, result.",
        "flows/{flow}/duties/",
        (_ONE_FLOW,),
        is_list=False,
    ),
    Tool(
        "list_gaps",
        "Data loss of a flow that a person decides on: partition, offsets, reason, decision.",
        "flows/{flow}/gaps/",
        (_ONE_FLOW, _SEARCH),
    ),
    Tool(
        "get_readiness",
        "How ready a flow's target is for a failover, 0 to 100, by term: what costs points, and "
        "what to do.",
        "flows/{flow}/readiness/",
        (_ONE_FLOW,),
        is_list=False,
    ),
    Tool(
        "get_target_plan",
        "What a flow would change on its target (topics, configs, ACLs), as of its last check. "
        "A check is not started.",
        "flows/{flow}/plan/",
        (_ONE_FLOW,),
        is_list=False,
    ),
    Tool(
        "list_failover_runs",
        "Simulations and failovers, newest first, with state and `verification`. "
        "get_failover_run has plan and result. No run is started.",
        "failovers/",
        (
            _ANY_FLOW,
            Argument(
                "kind",
                "Only of this kind.",
                choices=("simulation", "switchover", "failover", "failback"),
            ),
            _SEARCH,
        ),
        flow_as="clusters",
    ),
    Tool(
        "get_failover_run",
        "One simulation or failover: the plan (loss, resume offset of each group, blockers, "
        "changes of clients), the steps, and the result.",
        "failovers/{run}/",
        (Argument("run", "The id of the run.", "number", required=True),),
        is_list=False,
    ),
    Tool(
        "list_comparisons",
        "Comparisons of a flow's two clusters, newest first. `verdict`: same, partly (all that was "
        "read is the same) or differs; `summary` counts each aspect.",
        "comparisons/",
        (_ANY_FLOW, _SEARCH),
        flow_as="clusters",
    ),
    Tool(
        "list_comparison_findings",
        "The differences that a comparison found, with their exact offsets.",
        "comparisons/{comparison}/findings/",
        (Argument("comparison", "The id of the comparison.", "number", required=True), _SEARCH),
    ),
    Tool(
        "list_alerts",
        "Alerts with what they say, since when, and the runbook.",
        "alerts/",
        (
            Argument("state", "Only in this state.", choices=ALERT.names),
            Argument("severity", "Only of this severity.", choices=("info", "warning", "critical")),
            _SEARCH,
        ),
    ),
    Tool(
        "list_clusters",
        "Clusters, and whether each was reachable when last checked. Secrets are references.",
        "clusters/",
        (_SEARCH,),
    ),
    Tool(
        "list_certificates",
        "Signed certificates of drills and failovers, newest first.",
        "certificates/",
        (_SEARCH,),
    ),
    Tool(
        "list_audit_entries",
        "What people did, with their reasons; newest first. Whether the log is unchanged is not "
        "verified here; `manage.py verify_audit` does that.",
        "audit/",
        (_SEARCH,),
    ),
)
