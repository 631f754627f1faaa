"""A broker's explanations of transactions: each kind of event with its time and cause, before and after restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gantrymq.broker.client import Operator
from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.message_rights import all_of_them
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.transactions.explanations import WORKING_MAX, TransactionExplanations
from gantrymq.broker.transactions.resume import ResumeOperation
from gantrymq.message.system_topics import HALF, PARKED
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.tools import ExplainTransaction, ListChecks
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.transactions.history.diagnosis import CHECKS_SPAN_MAX
from tests.broker.transaction_lab import GROUP, HOST, Half, Lab, LabClient
from tests.support.brokers import Cluster, on_broker

CONFIG = LiveConfig(BrokerConfig.of(broker_name="broker-a", store_path_root_dir="unused", transaction_check_max=2))


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path, check_max=2)

    async def sleep(seconds: float) -> None:
        assert not seconds

    lab.clock.sleep = sleep  # type: ignore[method-assign]
    yield lab
    lab.crash()


def explanations(lab: Lab, **limits: int) -> TransactionExplanations:
    address = "127.0.0.1:30911"
    return TransactionExplanations(CONFIG, lab.store, lab.coordinator, lab.producers, lab.clock, address, **limits)


def explain(lab: Lab, half: Half | str, **limits: int) -> dict[str, Any]:
    (found,) = asyncio.run(
        explanations(lab, **limits).explain(half if isinstance(half, str) else half.key, all_of_them)
    )
    json.dumps(found)
    return found


def events(lab: Lab, half: Half) -> list[str]:
    return [event["event"] for event in explain(lab, half)["events"]]


def undecided(lab: Lab, **which: Any) -> list[tuple[str, str]]:
    return [(row["id"], row["state"]) for row in asyncio.run(explanations(lab).undecided(**which, told=all_of_them))]


def park(lab: Lab, producer: LabClient, half: Half) -> None:
    for _ in range(2):
        lab.clock.advance(30)
        lab.end(producer, half, Resolution.UNKNOWN, check=True)
    lab.clock.advance(31)


def resume(lab: Lab, why: str = "ann@coordinator: ticket 7") -> None:
    (parked,) = lab.records(PARKED, 0)
    results: list[Refused | None] = []
    operation = ResumeOperation(lab.store, lab.coordinator)
    operation.resume(LabClient("192.0.2.8:1"), parked.log_offset, Operator(why), results.append)
    lab.clock.run()
    assert results == [None]


def test_a_plain_transaction(lab: Lab) -> None:
    producer = lab.online()
    half = lab.half(producer)
    lab.commit(producer, half)
    found = explain(lab, half)
    assert (found["state"], found["notes"]) == ("committed", [])
    stored, committed = found["events"]
    assert (stored["event"], committed["event"], committed["who"]) == ("stored", "committed", producer.address)
    assert found["final"]["queue_offset"] == 0


def test_asked_answered_and_ended_by_the_answer(lab: Lab) -> None:
    producer = lab.online()
    half = lab.half(producer)
    lab.clock.advance(7)
    open_one = explain(lab, half)
    assert (open_one["state"], open_one["checks"], open_one["producers_online"]) == ("open", 1, 1)
    assert "waits for its answer" in open_one["why"] and open_one["next_check_in_ms"] == 29_000
    lab.end(producer, half, Resolution.UNKNOWN, check=True)
    lab.clock.advance(30)
    lab.end(producer, half, Resolution.ROLLBACK, check=True)
    lab.commit(producer, half)
    found = explain(lab, half)
    assert [event["event"] for event in found["events"]] == [
        "stored", "immunity_ended", "check_sent", "check_answered", "check_sent", "rolled_back", "conflicting_end",
    ]  # fmt: skip
    assert "gave this answer to a check" in found["events"][5]["cause"]
    assert "rolled back already" in found["events"][6]["cause"]
    assert [event["at_ms"] for event in found["events"]] == sorted(event["at_ms"] for event in found["events"])


def test_from_nobody_to_parked_to_an_operator(lab: Lab) -> None:
    half = lab.half()
    lab.clock.advance(10)
    assert events(lab, half) == ["stored", "immunity_ended", "nobody_online"]
    producer = lab.online()
    park(lab, producer, half)
    parked = explain(lab, half)
    assert parked["state"] == "parked" and "gantry transactions resume" in parked["advice"]
    lab.commit(producer, half)
    lab.clock.advance(5)
    resume(lab)
    again = explain(lab, half)
    assert again["state"] == "open"
    resumed = next(event for event in again["events"] if event["event"] == "resumed")
    assert (resumed["cause"], resumed["who"]) == ("an operator resumed it: ann@coordinator: ticket 7", "192.0.2.8:1")
    newest = lab.halves()[-1]
    lab.end(producer, half, Resolution.ROLLBACK, check=True, operator="bob: no such order",
            place=(newest.queue_offset, newest.log_offset))  # fmt: skip
    found = explain(lab, half)
    assert found["state"] == "rolled back"
    assert found["events"][-1]["cause"] == "an operator decided: bob: no such order"
    names = [event["event"] for event in found["events"]]
    assert names.index("parked") < names.index("conflicting_end") < names.index("resumed")
    assert "parked already" in found["events"][names.index("conflicting_end")]["cause"]


def test_other_protocols_wrong_groups_and_deleted_topics(lab: Lab) -> None:
    producer, stranger = lab.online(), LabClient("198.51.100.9:1")
    half = lab.half(producer)
    lab.end(stranger, half, Resolution.COMMIT)
    lab.end(producer, half, Resolution.COMMIT, group="PG_other")
    lab.topics.clear()
    lab.end(producer, half, Resolution.COMMIT)
    found = explain(lab, half)
    refused = [event for event in found["events"] if event["event"] == "end_refused"]
    assert [event["who"] for event in refused] == ["198.51.100.9:1", producer.address, producer.address]
    for event, word in zip(refused, ("stranger", "another producer group", "did not exist"), strict=True):
        assert word in event["cause"]


def test_what_a_restart_keeps_and_what_a_kill_may_have_taken(lab: Lab) -> None:
    producer = lab.online()
    half = lab.half(producer)
    lab.clock.advance(7)
    lab.coordinator.close()
    lab.crash()
    lab.open()
    lab.clock.advance(40)
    found = explain(lab, half)
    assert [event["event"] for event in found["events"]] == [
        "stored", "immunity_ended", "check_sent", "broker_stopped", "broker_started", "check_sent", "check_sent",
    ]  # fmt: skip
    assert "stopped in an orderly way" in found["events"][4]["cause"] and found["notes"] == []
    lab.end(producer, half, Resolution.UNKNOWN, check=True)
    lab.crash()
    lab.open()
    found = explain(lab, half)
    assert "check_answered" not in [event["event"] for event in found["events"]], "the answer was in memory only"
    assert "last second may be missing" in str(found["notes"])
    for path in (lab.root / "gantry/history").iterdir():
        path.unlink()
    lab.crash()
    lab.open()
    assert "does not reach back" in str(explain(lab, half)["notes"])


def test_the_op_is_found_far_behind_and_when_the_clock_was_set_back(lab: Lab) -> None:
    producer = lab.online()
    early, late = lab.half(producer), lab.half(producer)
    for _ in range(20):
        lab.roll_back(producer, lab.half(producer))
    lab.clock.advance(7)
    lab.clock.wall -= 3_600_000
    lab.roll_back(producer, late)
    lab.clock.wall += 3_600_000
    lab.roll_back(producer, early)
    for half in (early, late):
        found = explain(lab, half, ops_at_once=3)
        assert (found["state"], found["events"][-1]["who"]) == ("rolled back", producer.address)


def test_it_is_found_by_each_of_its_ids(lab: Lab) -> None:
    half = lab.half()
    message_id = offset_message_id(HOST, half.place[1])
    assert explain(lab, message_id)["id"] == half.key
    assert explain(lab, message_id.lower())["id"] == half.key
    for nobody in ("nothing", offset_message_id(HOST, 1), "00" * 16):
        assert asyncio.run(explanations(lab).explain(nobody, all_of_them)) == []


def test_a_key_used_twice_is_two_transactions(lab: Lab) -> None:
    producer = lab.online()
    first = lab.half(producer, "K")
    lab.roll_back(producer, first)
    lab.commit(producer, first)
    lab.clock.advance(1)
    second = lab.half(producer, "K", body=b"other")
    one, two = asyncio.run(explanations(lab).explain("K", all_of_them))
    assert (one["state"], two["state"]) == ("rolled back", "open")
    assert "conflicting_end" in str(one) and "conflicting_end" not in str(two)
    assert second.place != first.place


def test_an_open_one_is_known_without_the_index(lab: Lab) -> None:
    lab.crash()
    lab.index = False
    lab.open()
    half = lab.half()
    assert not lab.store.query(HALF, half.key, 1)
    assert explain(lab, half)["state"] == "open"


def test_lists_of_what_is_undecided(lab: Lab) -> None:
    producer = lab.online()
    parked = lab.half(producer)
    park(lab, producer, parked)
    first, second = lab.half(producer), lab.half(producer)
    lab.commit(producer, lab.half(producer))
    assert undecided(lab) == [(first.key, "open"), (second.key, "open"), (parked.key, "parked")]
    assert undecided(lab, state="parked") == [(parked.key, "parked")]
    assert undecided(lab, state="open", limit=1) == [(first.key, "open")]
    assert undecided(lab, group=GROUP, limit=3)[2:] == [(parked.key, "parked")]
    assert undecided(lab, group="PG_other") == []
    resume(lab)
    assert undecided(lab, state="parked") == []
    assert len(lab.records(HALF, 0)) == 5


def test_the_request_of_our_own(tmp_path: Path) -> None:
    async def work(running: Cluster) -> None:
        properties = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01ABC\x02"
        await running.sent("Orders", properties=properties)
        answer = await running.ask(RequestCode.EXPLAIN_TRANSACTION, ExplainTransaction(transaction_id="ABC"))
        assert answer.code == ResponseCode.SUCCESS
        (found,) = json.loads(answer.body)
        assert (found["id"], found["state"], found["events"][0]["event"]) == ("ABC", "open", "stored")
        answer = await running.ask(RequestCode.EXPLAIN_TRANSACTION, ExplainTransaction(transaction_id="DEF"))
        assert (answer.code, answer.body) == (ResponseCode.SUCCESS, b"[]")

        checks = await running.ask(RequestCode.LIST_CHECKS, ListChecks(begin=0, end=5))
        assert json.loads(checks.body)[0][:3] == [0, 0, 0], "half queue offset, checks, UNKNOWNs, next look"
        assert json.loads((await running.ask(RequestCode.LIST_CHECKS, ListChecks(begin=1, end=5))).body) == []
        for span in ((0, 1 << 40), (-(1 << 63), (1 << 63) - 1)):  # found by fuzzing: the second one was a defect
            refused = await running.ask(RequestCode.LIST_CHECKS, ListChecks(begin=span[0], end=span[1]))
            assert refused.code == ResponseCode.INVALID_PARAMETER and "at most" in (refused.remark or "")

    on_broker(work, tmp_path)


def test_only_so_many_explanations_are_made_at_once(lab: Lab) -> None:
    half, operation = lab.half(), explanations(lab)
    lab.clock.sleep = asyncio.sleep  # type: ignore[method-assign]

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(
            *[operation.explain(half.key, all_of_them) for _ in range(20)], return_exceptions=True
        )

    results = asyncio.run(all_at_once())
    refused = [result for result in results if isinstance(result, Refused)]
    assert len(refused) == 20 - WORKING_MAX and {one.reason for one in refused} == {Refusal.BUSY}
    assert asyncio.run(operation.explain(half.key, all_of_them))[0]["id"] == half.key, "the others have ended"


def test_a_question_about_checks_is_limited(lab: Lab) -> None:
    lab.half()
    assert list(explanations(lab).checks(range(CHECKS_SPAN_MAX))) == [0]
    with pytest.raises(Refused) as refused:
        explanations(lab).checks(range(CHECKS_SPAN_MAX + 1))
    assert refused.value.reason is Refusal.PARAMETER_INVALID
