"""A failback after a failover: orphans, what is decided on them, groups, and the switch back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.judge.cluster import Writer
from tests.judge.ledger import Generation, TopicPartition
from tests.judge.simulations import ENDED, held, leave_behind
from tests.judge.verdicts import (
    Finding,
    Orphans,
    Resume,
    judge_copies,
    judge_orphans,
    judge_resume,
)
from tests.judge.world import World

PREPARED_S = 150.0
DONE_S = 100.0
SWITCH_S = 300.0
DECISIONS = ("replay", "export", "drop")
_DONE = {"replay": "replayed", "export": "exported", "drop": "dropped"}
_READING = 3.0
Copies = Mapping[TopicPartition, list[tuple[int, str]]]


def fail_back(world: World) -> list[Finding]:
    """From the stopped flow to clients on the old primary; all that is said is compared."""
    return _Failback(world).run()


class _Failback:
    def __init__(self, world: World) -> None:
        self.world = world
        self.path = ""
        self.is_begun = True
        self.findings: list[Finding] = []
        # A topic of the standby's own, with its partitions.
        self.own = f"{world.prefix}own"
        self.own_partitions = 2
        self.orphans: dict[TopicPartition, list[str]] = {}
        self.decided: dict[TopicPartition, str] = {}

    def run(self) -> list[Finding]:
        self._use_the_standby()
        acts = (self._prepare, self._list, self._decide, self._move_groups, self._switch)
        for act in acts:
            act()
            if not self.is_begun or any(finding.kind == "broken" for finding in self.findings):
                break
        return self.findings

    def _broken(self, said: str) -> None:
        self.findings.append(
            Finding(kind="broken", statement="failback", said=said, true="it could have gone on")
        )

    def _wait(self, is_over: Callable[[Any], bool], seconds: float) -> Any:
        """The failback as REST shows it, once that holds or the time is over."""
        until = time.monotonic() + seconds
        while not is_over(row := self.world.rest(self.path)) and time.monotonic() < until:
            time.sleep(0.5)
        return row

    def _use_the_standby(self) -> None:
        """Records of the standby's own, and groups that read on there."""
        world = self.world
        world.stop_moved()
        world.heal()
        world.target.create(self.own, self.own_partitions)
        rows = [
            ((self.own, world.chance.randrange(self.own_partitions)), world.value())
            for _ in range(world.chance.randint(5, 60))
        ]
        Writer(world.target).write(rows)
        copies = world.look() | world.target.read({self.own: self.own_partitions})
        for group in sorted(world.groups):
            read_on = {}
            for tp, at in world.target.committed(group).items():
                offsets = [offset + 1 for offset, _ in copies.get(tp, ()) if offset >= at]
                if offsets and world.chance.random() < 0.5:
                    read_on[tp] = world.chance.choice(offsets)
            if read_on:
                world.target.commit(group, read_on)
        group = f"g{world.seed}-own"
        partitions = [tp for tp in copies if tp[0] == self.own and copies[tp]]
        world.target.commit(
            group, {tp: world.chance.choice(copies[tp])[0] + 1 for tp in partitions}
        )
        world.groups.add(group)

    def _prepare(self) -> None:
        world = self.world
        code, made = world.ask("failbacks/", {"flow": world.flow, "reason": "the judge"})
        if code >= 400:
            self._broken(f"refused with {code}: {made}")
            return
        self.path = f"failbacks/{made['id']}/"
        run = self._wait(lambda row: row["state"] in {"running", "failed"}, PREPARED_S)
        world.reverse = run["reverse"] or 0
        world.steps.append(f"the failback is {run['state']}: {run['reason']}")
        self.is_begun = run["state"] == "running"
        if not self.is_begun and not self._is_all_recreated():
            self._broken(f"{run['state']}: {run['reason']}")
        self.left_out = {
            row["topic"] for row in run["starts"] or () if row["kind"] in ("blocked", "gone")
        }

    def _is_all_recreated(self) -> bool:
        """Nothing can be failed back into topics that are not those that were copied."""
        generations = list(self.world.ledger.living())
        return all(one.number > 0 for one in generations)

    def _list(self) -> None:
        """What only the old primary has, by an own count, and what is said of it."""
        world = self.world
        copies = world.look()
        rows = self._rows("orphans/")
        said = {(row["topic"], row["partition"]): row for row in rows}
        for generation in self._returning():
            for number in generation.partitions:
                tp = generation.topic, number
                there = {value for _, value in copies.get(self._remote(tp), ())}
                own = [value for value in self._held(generation, number) if value not in there]
                row = said.get(tp, {})
                found = judge_orphans(
                    Orphans(
                        place=f"{tp[0][:60]}-{number}",
                        records=row.get("records", 0),
                        certainty=row.get("certainty", "counted"),
                        counted=len(own),
                    )
                )
                self.findings += [found] if found else []
                if own and row:
                    self.orphans[tp] = own
        counts = ", ".join(f"{t[:40]}-{n}: {len(v)}" for (t, n), v in self.orphans.items())
        world.steps.append(f"orphans of {counts or 'no partition'}")

    def _rows(self, name: str) -> list[dict[str, Any]]:
        return list(self.world.rest(f"{self.path}{name}?page_size=500")["results"])

    def _returning(self) -> Iterator[Generation]:
        """Topics that were copied, and that the reverse flow does not leave out."""
        rows = self.world.rest(f"{self.world.path}divergence/?page_size=500")["results"]
        copied = {row["topic"] for row in rows}
        for generation in self.world.ledger.living():
            remote = self.world.ledger.remote(generation.topic)
            if generation.topic in copied and remote not in self.left_out:
                yield generation

    def _remote(self, tp: TopicPartition) -> TopicPartition:
        return self.world.ledger.remote(tp[0]), tp[1]

    @staticmethod
    def _held(generation: Generation, number: int) -> list[str]:
        later = World.later()
        return [one.value for one in generation.partitions[number] if one.is_there(later)]

    def _decide(self) -> None:
        world = self.world
        waiting = [row for row in self._rows("orphans/") if row["records"]]
        for row in waiting:
            choice = world.chance.choice(DECISIONS)
            if not self._request_decision((row["topic"], row["partition"]), choice):
                return
        if not waiting:
            return
        open_rows = self._undone()
        for tp, row in open_rows.items():
            if "Raise max.message.bytes" in row["reason"]:
                # A person does what the reason says, and decides again.
                world.target.configure(self._remote(tp)[0], max_message_bytes="1048588")
                if not self._request_decision(tp, self.decided[tp]):
                    return
                world.steps.append(f"larger records in {tp[0][:40]}, and decided again")
        open_rows = self._undone() if open_rows else {}
        for tp, row in open_rows.items():
            self._broken(f"{self.decided[tp]} of {tp} is {row['state']}: {row['reason']}")
        chosen = ", ".join(f"{t[:40]}-{n}: {how}" for (t, n), how in self.decided.items())
        world.steps.append(f"decided {chosen}")
        self._judge_copies(world.look(), "after the decisions")

    def _request_decision(self, tp: TopicPartition, choice: str) -> bool:
        body = {
            "decision": choice,
            "reason": "the judge",
            "partitions": [{"topic": tp[0], "partition": tp[1]}],
        }
        code, answer = self.world.ask(f"{self.path}decide/", body)
        if code >= 400:
            self._broken(f"{choice} of {tp} is refused with {code}: {answer}")
            return False
        self.decided[tp] = choice
        return True

    def _undone(self) -> dict[TopicPartition, dict[str, Any]]:
        """The decisions that are not carried out in time, or that failed."""
        until = time.monotonic() + DONE_S
        while True:
            rows = {(row["topic"], row["partition"]): row for row in self._rows("orphans/")}
            found = {p: rows[p] for p, how in self.decided.items() if not _is(rows[p], how)}
            waiting = any(row["state"] != "failed" for row in found.values())
            if not waiting or time.monotonic() > until:
                return found
            time.sleep(0.5)

    def _judge_copies(self, copies: Copies, when: str) -> None:
        """A replayed record is there once; what was exported or dropped is not copied."""
        for tp, own in self.orphans.items():
            if tp in self.decided:
                there = [value for _, value in copies.get(self._remote(tp), ())]
                times = 1 if self.decided[tp] == "replay" else 0
                where = f"{tp[0][:60]}-{tp[1]}, {self.decided[tp]}, {when}"
                found = judge_copies(where, own, there, times)
                self.findings += [found] if found else []

    def _move_groups(self) -> None:
        world = self.world
        world.stop_readers()
        self._wait_for_own()
        before = world.rest(self.path)["groups_at"]
        code, answer = world.ask(f"{self.path}groups/", {"act": True})
        if code >= 400:
            self._broken(f"its groups are refused with {code}: {answer}")
            return
        run = self._wait(lambda row: row["groups_at"] != before, DONE_S)
        if run["groups_at"] == before:
            self._broken(f"its groups were not read within {DONE_S:.0f} s")
            return
        states = ", ".join(sorted({str(row["state"]) for row in run["groups"]}))
        world.steps.append(f"groups of the failback: {len(run['groups'])} rows, {states}")
        for row in run["groups"]:
            if row["state"] == "failed":
                self._broken(f"group {row['group']} in {row['topic']}: {row['reason']}")
        self._judge_groups("moved by the failback")

    @property
    def _returned(self) -> str:
        """The name that the standby's own topic has on the old primary."""
        prefix = "" if self.world.is_same_name else f"{self.world.target_alias}."
        return f"{prefix}{self.own}"

    def _wait_for_own(self) -> None:
        until = time.monotonic() + DONE_S
        while self._missing():
            if time.monotonic() > until:
                row = self.world.rest(f"flows/{self.world.reverse}/")
                state = f"{row['observed_state']} ({row['reason']})"
                self._broken(f"the reverse flow copies nothing back: it is {state}")
                return
            time.sleep(1)

    def _own(self) -> Copies:
        return self.world.target.read({self.own: self.own_partitions})

    def _back(self) -> Copies:
        count = self.world.source.topics().get(self._returned)
        return self.world.source.read({self._returned: count}) if count else {}

    def _missing(self) -> int:
        there = {value for rows in self._back().values() for _, value in rows}
        return sum(value not in there for rows in self._own().values() for _, value in rows)

    def _judge_groups(self, when: str) -> None:
        """No group skips, on the old primary, a record that it has read on neither side."""
        world = self.world
        copies, own, back = world.look(), self._own(), self._back()
        for group in sorted(world.groups):
            there = world.target.committed(group)
            for (topic, number), at in world.source.committed(group).items():
                if topic == self._returned:
                    read = there.get((self.own, number), 0)
                    held = back.get((topic, number), [])
                    consumed = [v for o, v in own.get((self.own, number), ()) if o < read]
                elif (generation := world.ledger.current(topic)) and number in (
                    generation.partitions
                ):
                    held = [
                        (one.offset, one.value)
                        for one in generation.partitions[number]
                        if one.is_there(World.later())
                    ]
                    consumed = self._consumed(group, generation, number, there, copies)
                else:
                    continue
                said = Resume(
                    statement=f"{group} in {topic[:60]}-{number} on the old primary, {when}",
                    downstream=at,
                    re_reads=None,
                    skipped=None,
                    copies=held,
                    consumed=frozenset(consumed),
                    held=frozenset(value for _, value in held),
                )
                found = judge_resume(said)
                self.findings += [found] if found else []

    def _consumed(
        self,
        group: str,
        generation: Generation,
        number: int,
        there: Mapping[TopicPartition, int],
        copies: Copies,
    ) -> set[str]:
        """What it read on either side, and what a person decided not to copy."""
        tp = generation.topic, number
        remote = self._remote(tp)
        consumed = {v for offset, v in copies.get(remote, ()) if offset < there.get(remote, 0)}
        commit = self.world.ledger.commits.get((group, *tp))
        if commit is not None and commit.generation == generation.number:
            records = generation.partitions[number]
            consumed |= {one.value for one in records if one.offset < commit.offset}
        if self.decided.get(tp) in ("export", "drop"):
            consumed |= set(self.orphans.get(tp, ()))
        return consumed

    def _switch(self) -> None:
        world = self.world
        body = {"confirm_alias": world.source_alias, "reason": "the judge"}
        until = time.monotonic() + DONE_S
        while True:
            code, answer = world.ask(f"{self.path}switch/", body)
            if code != 409 or time.monotonic() > until:
                break
            time.sleep(1)
        if code >= 400:
            self._broken(f"the switch back is refused with {code}: {answer}")
            return
        back, run = self._await_switch(body)
        world.steps.append(f"switch back: {back['state']}: {back['reason']}")
        if run and (run["state"] not in ENDED or run["state"] != "succeeded"):
            self.findings.append(held("switch back", world.rest(f"failovers/{run['id']}/")))
        elif not run or back["state"] != "succeeded":
            self._broken(f"the switch back does not end: {back['reason']}")
        else:
            self._judge_switch(world.rest(f"failovers/{run['id']}/"))

    def _await_switch(self, body: Mapping[str, str]) -> tuple[dict[str, Any], Any]:
        """The failback and its switchover, when they ended or the time is over."""
        world = self.world
        until, has_left = time.monotonic() + SWITCH_S, False
        while True:
            back, run = world.rest(self.path), self._switchover()
            if not has_left and "refused" in back["reason"] and self._leave_behind():
                # The reverse flow can meet topics that the old primary does not take.
                has_left = True
                time.sleep(3)
                world.ask(f"{self.path}switch/", body)
                continue
            if back["ended_at"] or "refused" in back["reason"] or time.monotonic() > until:
                break
            if run and run["waits_for"] == "person":
                world.ask(f"failovers/{run['id']}/confirm/", {"reason": "the judge"})
            elif run and (run["waits_for"] == "trouble" or run["state"] in {"failed", "aborted"}):
                break
            time.sleep(0.5)
        return back, run

    def _leave_behind(self) -> bool:
        """Leave behind what blocked the last simulation of the reverse flow; whether any did."""
        rows = self.world.rest("failovers/?page_size=20&kind=simulation")["results"]
        last = next((row for row in rows if row["flow"] == self.world.reverse), None)
        run = last and self.world.rest(f"failovers/{last['id']}/")
        return bool(run) and leave_behind(self.world, run, self.world.reverse)

    def _switchover(self) -> dict[str, Any] | None:
        rows = self.world.rest("failovers/?page_size=20&kind=switchover")["results"]
        return next((row for row in rows if row["flow"] == self.world.reverse), None)

    def _judge_switch(self, run: Mapping[str, Any]) -> None:
        """What it says of loss is what is missing, and no record came back twice."""
        world = self.world
        world.steps.append(f"it said: {run['reason']}")
        totals = run["result"]["totals"]
        missing = self._missing()
        said = totals.get("loss_known", totals.get("loss")) or 0
        if missing > said:
            self.findings.append(
                Finding(
                    kind="too_good",
                    statement="loss of the switch back",
                    said=f"{totals.get('loss_certainty')} {said}",
                    true=f"{missing} records of {self.own} are missing",
                )
            )
        back = [value for rows in self._back().values() for _, value in rows]
        found = judge_copies(f"{self._returned}, after the switch back", back, back, 1)
        self.findings += [found] if found else []
        self._judge_groups("after the switch back")
        self._start_again()

    def _start_again(self) -> None:
        """The first flow goes on behind the orphans."""
        world = self.world
        code, answer = world.ask(f"{world.path}start/", {"reason": "the judge"})
        if code >= 400:
            world.steps.append(f"its start is refused with {code}: {answer}")
            return
        world.desired = "running"
        world.wait_until_running()
        time.sleep(_READING)
        self._judge_copies(world.look(), "after the first flow was started again")


def _is(row: Mapping[str, Any], decision: str) -> bool:
    return bool(row["state"] == _DONE[decision])
