"""An end by message id and transaction id finds the half message, and the rules of an end with offsets decide."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.broker.operations.end_by_id import EndsById, TransactionIds
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.message_ids import offset_message_id
from tests.broker.transaction_lab import DONE, GROUP, HOST, TOPIC, Ended, Half, Lab, LabClient

COMMIT, ROLLBACK = Resolution.COMMIT, Resolution.ROLLBACK


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "store")


def end(lab: Lab, client: LabClient, ids: TransactionIds, resolution: Resolution = COMMIT) -> Ended:
    ended = Ended()
    try:
        EndsById(lab.store, lab.coordinator).end(client, ids, resolution, ended.done)
    except Refused as refused:
        ended.done(refused)
    lab.clock.run()
    return ended


def ids_of(half: Half, group: str | None = None) -> dict[str, TransactionIds]:
    place = offset_message_id(HOST, half.place[1])
    return {
        "key twice": TransactionIds(half.key, half.key, group),
        "key": TransactionIds(half.key, None, group),
        "place": TransactionIds(place, None, group),
        "place in small letters": TransactionIds(place.lower(), "", group),
        "place and key": TransactionIds(place, half.key, group),
        "another message id": TransactionIds("not known", half.key, group),
    }


NAMES = ["key twice", "key", "place", "place in small letters", "place and key", "another message id"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("group", [None, GROUP])
def test_each_name_ends_the_half_it_means(lab: Lab, name: str, group: str | None) -> None:
    client, half, other = lab.online(), lab.half(), lab.half()
    ids = ids_of(half, group)[name]
    assert end(lab, client, ids).result is DONE
    (final,) = lab.delivered()
    assert final.prepared_transaction_offset == half.place[1]
    assert other.key in {open_half.unique_key for open_half in lab.coordinator.table}


@pytest.mark.parametrize("name", NAMES)
def test_after_the_end_the_first_decision_holds(lab: Lab, name: str) -> None:
    client, half = lab.online(), lab.half()
    assert lab.commit(client, half).result is DONE
    assert end(lab, client, ids_of(half)[name]).result is DONE, "the same decision again"
    assert end(lab, client, ids_of(half)[name], ROLLBACK).result is Refusal.CONFLICT
    assert len(lab.delivered()) == 1


def test_the_ids_hold_over_a_restart(lab: Lab) -> None:
    half, decided = lab.half(), lab.half()
    lab.commit(lab.online(), decided)
    lab.crash()
    client = lab.online()
    assert end(lab, client, ids_of(half)["key"], ROLLBACK).result is DONE
    assert end(lab, client, ids_of(decided)["place and key"], ROLLBACK).result is Refusal.CONFLICT


@pytest.mark.parametrize(
    "ids",
    [
        TransactionIds("unknown"),
        TransactionIds(""),
        TransactionIds("", ""),
        TransactionIds(offset_message_id(HOST, 7)),
        TransactionIds(offset_message_id(HOST, 1 << 60)),
        TransactionIds(offset_message_id(HOST, -1)),
        TransactionIds("0" * 32, "unknown"),
    ],
)
def test_unknown_ids_are_refused(lab: Lab, ids: TransactionIds) -> None:
    lab.half()
    ended = end(lab, lab.online(), ids)
    assert ended.result is Refusal.MESSAGE_UNKNOWN
    assert "no half message" in ended.remark


def test_ids_that_contradict_each_other_name_nothing(lab: Lab) -> None:
    client, half, other = lab.online(), lab.half(), lab.half()
    wrong = TransactionIds(offset_message_id(HOST, half.place[1]), "unknown")
    assert end(lab, client, wrong).result is Refusal.MESSAGE_UNKNOWN
    elsewhere = offset_message_id(pack_host("10.0.0.77:10911"), half.place[1])
    assert end(lab, client, TransactionIds(elsewhere)).result is Refusal.MESSAGE_UNKNOWN, "the id of another broker"
    lab.commit(client, other)
    final = offset_message_id(HOST, lab.delivered()[0].log_offset)
    assert end(lab, client, TransactionIds(final)).result is Refusal.MESSAGE_UNKNOWN, "no half message lies there"


def test_a_stranger_ends_nothing_by_an_id(lab: Lab) -> None:
    half = lab.half()
    for ids in ids_of(half).values():
        assert end(lab, LabClient("10.0.0.66:4711"), ids).result is Refusal.FAILED
        assert end(lab, lab.online("Others"), ids).result is Refusal.FAILED
    assert end(lab, lab.online("Others"), TransactionIds(half.key, group="Others")).result is Refusal.MESSAGE_UNKNOWN
    place = TransactionIds(offset_message_id(HOST, half.place[1]), group="Others")
    assert end(lab, lab.online("Others"), place).result is Refusal.FAILED, "the group is wrong"
    assert len(lab.coordinator.table) == 1


def test_a_key_of_two_groups_needs_the_group(lab: Lab) -> None:
    client, half = lab.online(), lab.half()
    twin = Half(lab, half.key)
    lab.coordinator.put_half(lab.message(half.key, PGROUP="Others"), "Others", half.key, twin.done)
    lab.clock.run()
    assert end(lab, client, TransactionIds(half.key)).result is Refusal.PARAMETER_INVALID
    assert end(lab, client, TransactionIds(half.key, group=GROUP)).result is DONE
    (left,) = lab.coordinator.table
    assert (left.group, left.place) == ("Others", twin.place)


def test_a_place_means_the_old_transaction_of_a_key_that_began_a_new_one(lab: Lab) -> None:
    client, half = lab.online(), lab.half()
    lab.commit(client, half)
    again = lab.half(key=half.key)
    assert end(lab, client, ids_of(half)["place and key"], ROLLBACK).result is Refusal.CONFLICT
    assert end(lab, client, TransactionIds(half.key), ROLLBACK).result is DONE, "the open one"
    assert again.place != half.place and len(lab.delivered()) == 1


def test_a_door_hears_the_topic_before_the_end(lab: Lab) -> None:
    half = lab.half()
    for ids in ids_of(half).values():
        found = EndsById(lab.store, lab.coordinator).find(ids)
        assert (found.topic, found.group, found.unique_key) == (TOPIC, GROUP, half.key)
        assert (found.queue_offset, found.log_offset) == half.place
