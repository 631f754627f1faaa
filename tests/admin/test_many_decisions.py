"""Many undecided transactions on a real broker: only those that a plan lists are decided, and each step is recorded."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gantrymq.admin import Admin
from gantrymq.admin.audit import AuditFailed, AuditFile
from gantrymq.admin.decisions import Action, Decisions
from gantrymq.admin.many_decisions import STEP, Fate, ManyDecisions, Outcome, Plan
from gantrymq.admin.transaction_pages import Filter
from gantrymq.aio import TransactionProducer
from gantrymq.client.listener import LocalTransactionState
from gantrymq.errors import ConfigError, Unreachable
from gantrymq.message.message import Message
from gantrymq.message.transaction import Resolution
from gantrymq.runtime.clock import SystemClock
from gantrymq.transactions.rules.states import State
from tests.support.brokers import Cluster, cluster

PARKED = State.PARKED
PARKING = {"transaction_time_out": 1_000, "transaction_check_interval": 1_000, "transaction_check_max": 1}


class Unsure:
    """A service that knows of no outcome."""

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


@dataclass
class Lab:
    running: Cluster
    admin: Admin
    many: ManyDecisions
    audit: Path
    name_servers: str

    async def halves(self, first: int, count: int, group: str = "PG") -> None:
        for number in range(first, first + count):
            properties = f"TRAN_MSG\x01true\x02PGROUP\x01{group}\x02UNIQ_KEY\x01ABC{number}\x02"
            await self.running.sent("Orders", properties=properties)

    async def all_steps(self, plan: Plan) -> list[Outcome]:
        found: list[Outcome] = []
        for rows in plan.steps():
            found += await self.many.step(plan, rows, "ann", "ticket 7", "run-1")
        return found

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.audit.read_text().splitlines()]


@contextlib.asynccontextmanager
async def lab(root: Path, **settings: object) -> AsyncIterator[Lab]:
    audit, clock = root / "audit.jsonl", SystemClock()
    async with asyncio.timeout(60), cluster(root / "store", with_name_server=True, **settings) as running:
        assert running.name_server is not None
        name_servers = running.name_server.address
        async with Admin(name_servers) as admin:
            decisions = Decisions(admin.transactions, AuditFile(audit, clock), name_servers)
            many = ManyDecisions(admin.transactions, decisions, AuditFile(audit, clock), name_servers, clock)
            yield Lab(running, admin, many, audit, name_servers)


def fates(outcomes: list[Outcome]) -> dict[Fate, int]:
    return dict(Counter(outcome.fate for outcome in outcomes))


def test_what_a_plan_lists_is_decided_in_steps_and_nothing_else(tmp_path: Path) -> None:
    async def work() -> None:
        async with lab(tmp_path) as there:
            await there.halves(0, STEP + 20)
            await there.halves(1_000, 5, group="other")
            plan = await there.many.plan(Action.COMMIT, Filter(group="PG"))
            assert (len(plan.rows), plan.cut, plan.by_group()) == (STEP + 20, False, [("PG", STEP + 20)])
            assert not there.audit.exists(), "a plan changes nothing"
            await there.halves(2_000, 3)  # they fit the filter, and nobody has seen them
            outcomes = await there.all_steps(plan)
            assert fates(outcomes) == {Fate.DONE: STEP + 20}
            summary = (await there.admin.transactions.pages.summaries())["broker-a"]
            assert summary is not None and (summary.open, summary.counts["commits"]) == (8, STEP + 20)
            lines = there.lines()
            assert [(line["phase"], line["run"]) for line in lines] == [("intended", "run-1"), ("done", "run-1")] * 2
            assert [len(line["transactions"]) for line in lines] == [STEP, STEP, 20, 20]  # type: ignore[arg-type]
            assert lines[0]["who"] == "ann" and lines[1]["outcome"] == f"{STEP} of {STEP} committed"
            (explained,) = await there.admin.explanations.of("ABC7", None)
            assert "ann: ticket 7" in str(explained["events"]), "the broker keeps person and reason"

    asyncio.run(work())


def test_what_others_decided_meanwhile_is_said_as_such(tmp_path: Path) -> None:
    async def work() -> None:
        async with lab(tmp_path) as there:
            await there.halves(0, 4)
            plan = await there.many.plan(Action.ROLLBACK, Filter())
            for key in ("ABC1", "ABC3"):  # its producer does; ABC3 is the last one that the plan lists
                (place,) = await there.admin.transactions.find(key)
                await there.admin.transactions.end(place, Resolution.COMMIT, "producer")
            outcomes = {outcome.row.id: outcome for outcome in await there.all_steps(plan)}
            assert {key: one.fate for key, one in outcomes.items()} == {
                "ABC0": Fate.DONE, "ABC1": Fate.MEANWHILE, "ABC2": Fate.DONE, "ABC3": Fate.MEANWHILE,
            }  # fmt: skip
            assert "it is committed" in outcomes["ABC1"].text
            assert fates(await there.all_steps(plan)) == {Fate.MEANWHILE: 4}, "the same plan again changes nothing"
            assert [len(line["transactions"]) for line in there.lines()] == [2, 2]  # type: ignore[arg-type]

    asyncio.run(work())


def test_the_moment_between_the_look_and_the_end(tmp_path: Path) -> None:
    """The broker refuses one that somebody decided the other way after the step had looked."""

    async def work() -> None:
        async with lab(tmp_path) as there:
            await there.halves(0, 2)
            plan = await there.many.plan(Action.ROLLBACK, Filter())
            (place,) = await there.admin.transactions.find("ABC1")
            await there.admin.transactions.end(place, Resolution.COMMIT, "producer")
            errors = await there.admin.transactions.end_listed(plan.rows, Resolution.ROLLBACK, "ann: ticket 7")
            assert errors[0] is None and "refused" in str(errors[1])
            found = await there.many._ended(plan.rows[1], plan.action, errors[1])
            assert found.fate is Fate.MEANWHILE and "committed" in found.text

    asyncio.run(work())


@pytest.mark.slow
def test_parked_ones_are_opened_again_and_decided_in_one_step_that_names_both(tmp_path: Path) -> None:
    async def work() -> None:
        async with lab(tmp_path, **PARKING) as there:
            await there.halves(0, 3)
            await parked(there, 3)
            plan = await there.many.plan(Action.RESUME_AND_COMMIT, Filter(group="PG"))
            assert [row.state for row in plan.rows] == ["parked"] * 3
            (place,) = [one for one in await there.admin.transactions.find("ABC1") if one.transaction.state is PARKED]
            await there.admin.transactions.resume(place, "bob: ticket 6")
            outcomes = {outcome.row.id: outcome for outcome in await there.all_steps(plan)}
            assert outcomes["ABC1"].fate is Fate.MEANWHILE and "open" in outcomes["ABC1"].text
            for key in ("ABC0", "ABC2"):
                row, said = outcomes[key].row, outcomes[key].text
                assert outcomes[key].fate is Fate.DONE, said
                assert said.startswith("committed; its parked half message " + row.half_offset_message_id)
                (explained,) = await there.admin.explanations.of(key, None)
                assert explained["state"] == "committed" and explained["half"]["offset_message_id"] in said
            plan = await there.many.plan(Action.RESUME_AND_ROLLBACK, Filter())
            assert plan.rows == ()

    asyncio.run(work())


async def parked(there: Lab, count: int) -> None:
    """Wait until so many are parked: their producer answers every check with UNKNOWN."""
    async with TransactionProducer(
        "PG", name_servers=there.name_servers, listener=Unsure(), topics=["Orders"]
    ):  # fmt: skip
        while True:
            summary = (await there.admin.transactions.pages.summaries())["broker-a"]
            if summary is not None and summary.parked_records == count:
                return
            await asyncio.sleep(0.05)


def test_a_step_needs_a_reason_and_a_record(tmp_path: Path) -> None:
    async def work() -> None:
        async with lab(tmp_path) as there:
            await there.halves(0, 1)
            plan = await there.many.plan(Action.COMMIT, Filter())
            with pytest.raises(ConfigError, match="reason"):
                await there.many.step(plan, plan.rows, "ann", " ", "run-1")
            there.audit.mkdir()
            with pytest.raises(AuditFailed):
                await there.all_steps(plan)
            there.audit.rmdir()
            await there.running.broker.close()
            with pytest.raises(Unreachable):
                await there.all_steps(plan)
            assert not there.audit.exists(), "nothing was begun"

    asyncio.run(work())


def test_decisions_about_one_group_at_the_same_time(tmp_path: Path) -> None:
    """Each was a member of the group for a moment, and the first that left took the membership of the others along."""

    async def work() -> None:
        async with lab(tmp_path) as there:
            await there.halves(0, 60)
            places = [(await there.admin.transactions.find(f"ABC{number}"))[0] for number in range(60)]

            async def one(number: int) -> None:
                await asyncio.sleep(number * 0.0011)  # so that some leave while others end
                await there.admin.transactions.end(places[number], Resolution.COMMIT, "ann: ticket 7")

            await asyncio.gather(*(one(number) for number in range(60)))
            summary = (await there.admin.transactions.pages.summaries())["broker-a"]
            assert summary is not None and summary.counts["commits"] == 60

    asyncio.run(work())
