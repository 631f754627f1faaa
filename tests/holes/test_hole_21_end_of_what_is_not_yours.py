"""Hole 21: an END_TRANSACTION from another client, or for a record that is not a half message.

Apache's brokers accept ends from every connection, and treat the bytes at the offset in the request as a half message.
So a request can deliver a message again, send an ordinary message to any topic, or deliver a forged record inside a
body. Ours: only a member of the producer group, or the process that sent the half message, may end it. An end refers to
an entry in the table of open transactions, never to bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gantrymq.broker.client import Client
from gantrymq.broker.registries.clients import ProducerGroups
from gantrymq.broker.transactions import end
from gantrymq.broker.transactions.end import Done, EndOperation, EndRequest
from gantrymq.errors import RemoteProtocolError
from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import HALF
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.stored_message import decode_record, encode_stored
from gantrymq.transactions.rules.resolve import EndAction
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.open_halves import OpenHalf
from tests.holes.actors import Half, Producer
from tests.holes.case import Apache, Case, Mutant, Observed, both
from tests.holes.senders import BODY_AT, Plain, send, silent
from tests.holes.stage import INTERVAL_S, Stage, require
from tests.support.records import encode_record

TRIES = 5
ROUNDS = 6
"""Check intervals in which a half must have been asked about."""
SPARE = 40
"""Halves that others may send between our two."""


async def _by_a_stranger(stage: Stage) -> Observed:
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES)
    return await _tries_to_commit(stage, silent(stage, producer.group), topic, halves)


async def _by_a_neighbour(stage: Stage) -> Observed:
    """A process on the sender's machine that knows the places, as they are easily guessed, but not the ids."""
    topic, outside, group = await stage.topic(), stage.new_outside(), stage.new_name("PG")
    producer = silent(stage, group, outside)
    halves = await producer.halves(topic, TRIES)
    observed = await _tries_to_commit(
        stage, silent(stage, group, outside), topic, [replace(half, key=stage.new_key()) for half in halves]
    )
    await producer.leave()
    return observed


async def _tries_to_commit(stage: Stage, stranger: Producer, topic: str, halves: list[Half]) -> Observed:
    codes = [(await stranger.commit(half)).code for half in halves]
    delivered = len(await stage.delivered(topic))
    await stranger.leave()
    return Observed(delivered, TRIES, f"answers {codes}")


async def _by_the_sender_elsewhere(stage: Stage) -> Observed:
    """Not to be broken: official clients with the "VIP channel" end on a connection that has sent nothing yet."""
    topic, outside, group = await stage.topic(), stage.new_outside(), stage.new_name("PG")
    producer, same = silent(stage, group, outside), silent(stage, group, outside)
    halves = await producer.halves(topic, TRIES)
    codes = [(await same.commit(half)).code for half in halves]
    delivered = len(await stage.delivered(topic))
    await producer.leave()
    await same.leave()
    return Observed(TRIES - delivered, TRIES, f"answers {codes}")


async def _of_a_final_message(stage: Stage) -> Observed:
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES)
    for half in halves:
        await producer.commit(half)
    finals = await stage.delivered(topic)
    require(len(finals) == TRIES, "a commit was not delivered")
    answers = [
        await producer.end(half, Resolution.COMMIT, place=(final.queue_offset, final.log_offset))
        for half, final in zip(halves, finals, strict=True)
    ]
    keys = await stage.keys(topic)
    return Observed(sum(keys.count(half.key) > 1 for half in halves), TRIES, f"{answers[0].code} {answers[0].remark}")


async def _of_another_half(stage: Stage) -> Observed:
    """ROLLBACK naming an ordinary message whose queue offset is that of an open half."""
    topic, producer = await stage.topic(), await stage.producer()
    first = (await producer.half(topic)).place[0]
    decoys: dict[int, Plain] = {}
    while max(decoys, default=0) < first + SPARE:
        sent = await send(producer, topic, b"decoy", stage.new_key(), PGROUP=producer.group)
        decoys[sent.place[0]] = sent
    half, control = await producer.half(topic), await producer.half(topic)
    require(half.place[0] in decoys, f"the half has the queue offset {half.place[0]}, decoys end at {first + SPARE}")
    answer = await producer.end(half, Resolution.ROLLBACK, place=decoys[half.place[0]].place)
    await stage.until(lambda: bool(producer.checks_of(control)), "the half beside it is checked")
    checked = await stage.comes_true(lambda: bool(producer.checks_of(half)), INTERVAL_S * ROUNDS)
    return Observed(int(not checked), 1, f"{answer.code} {answer.remark}")


async def _of_an_ordinary_message(stage: Stage) -> Observed:
    topic, target, producer = await stage.topic(), await stage.topic(), await stage.producer()
    codes = []
    for _ in range(TRIES):
        sent = await send(
            producer, topic, b"smuggled", stage.new_key(), PGROUP=producer.group, REAL_TOPIC=target, REAL_QID="0"
        )
        half = Half(sent.key, topic, sent.place, 0.0)
        codes.append((await producer.commit(half)).code)
    more = len(await stage.delivered(target)) + len(await stage.delivered(topic)) - TRIES
    return Observed(more, TRIES, f"answers {codes}")


async def _of_bytes_in_a_body(stage: Stage) -> Observed:
    topic, target, producer = await stage.topic(), await stage.topic(), await stage.producer()
    for _ in range(TRIES):
        probes = [await _forged(stage, producer, topic, target, 0) for _ in range(2)]
        begins = [plain.place[1] for plain in probes]
        at = 2 * begins[1] - begins[0] + BODY_AT
        carrier = await _forged(stage, producer, topic, target, at)
        if carrier.place[1] + BODY_AT == at:
            break
    require(carrier.place[1] + BODY_AT == at, "somebody else wrote between our messages")
    answer = await producer.commit(Half(carrier.key, topic, (0, at), 0.0))
    # Apache's brokers show a message a moment after they answered.
    delivered = await stage.comes_true(lambda: _holds(stage, target, carrier.key), INTERVAL_S)
    return Observed(int(delivered), 1, f"{answer.code} {answer.remark}")


async def _holds(stage: Stage, topic: str, key: str) -> bool:
    return key in await stage.keys(topic)


async def _forged(stage: Stage, producer: Producer, topic: str, target: str, at: int) -> Plain:
    """An ordinary message whose body is a record that claims to be a half at ``at``."""
    key, host = stage.new_key(), pack_host("127.0.0.1:10911")
    text = properties.encode(
        {"PGROUP": producer.group, "REAL_TOPIC": target, "REAL_QID": "0", "UNIQ_KEY": key, "TRAN_MSG": "true"}
    )
    body = encode_record(HALF.encode(), b"forged", text.encode(), 0, 0, at, 1, host, 1, host, 0, 0, 0, 0)
    return await send(producer, topic, body, key)


# ---- without the fixes


def _everybody_is_a_member(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerGroups, "is_member", lambda *_: True)


def _the_address_is_enough(patch: pytest.MonkeyPatch) -> None:
    def is_sender(peer: bytes, born_host: bytes, *_: object) -> bool:
        return peer[:-4] == born_host[:-4]

    patch.setattr(end, "is_sender", is_sender)
    patch.setattr(end, "may_mean", lambda *_: True)


def _only_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(end, "is_sender", lambda *_: False)


def _by_the_bytes(patch: pytest.MonkeyPatch) -> None:
    """What lies at the offset is believed, as Apache's brokers do."""
    end_one = EndOperation.end

    def believe(self: EndOperation, client: Client, request: EndRequest, done: Done | None) -> None:
        found = _decoded(self, request.log_offset)
        if found is None or self._table.at(request.queue_offset, request.log_offset) is not None:
            end_one(self, client, request, done)
            return
        said = properties.decode(found.properties_text)
        half = OpenHalf(
            found.queue_offset, found.log_offset, said["PGROUP"], said["UNIQ_KEY"], said.get("REAL_TOPIC", found.topic),
            int(said.get("REAL_QID", found.queue_id)), 0, 0, State.OPEN,
        )  # fmt: skip
        half.record = encode_stored(found)
        if half.queue_offset not in self._table:
            self._table.add(half)
        action = EndAction.COMMIT if request.resolution is Resolution.COMMIT else EndAction.ROLL_BACK
        self._decide(client, request, half, action, 1, done)

    patch.setattr(EndOperation, "end", believe)


def _decoded(operation: EndOperation, offset: int) -> StoredMessage | None:
    data = operation._store._log.read(offset, 4096)  # type: ignore[attr-defined]
    try:
        found = decode_record(data[: int.from_bytes(data[:4], "big")])
    except RemoteProtocolError:
        return None
    return found if found.log_offset == offset else None


BYTES = Mutant("the table that an end must name", _by_the_bytes)

CASES = [
    Case(
        "a stranger", _by_a_stranger, (Mutant("the membership", _everybody_is_a_member),), both(Apache.ALWAYS),
    ),
    Case(
        "a stranger on the sender's machine", _by_a_neighbour, (Mutant("the id", _the_address_is_enough),),
        both(Apache.ALWAYS),
    ),
    Case(
        "the sender on another connection", _by_the_sender_elsewhere,
        (Mutant("the sender's own way", _only_members),), both(Apache.NEVER),
    ),
    Case("a final message", _of_a_final_message, (BYTES,), {"4.9.7": Apache.ALWAYS, "5.5.0": Apache.NEVER}),
    Case(
        "another half", _of_another_half, (BYTES,), {"4.9.7": Apache.ALWAYS, "5.5.0": Apache.NEVER}, alone=True,
    ),
    Case("an ordinary message", _of_an_ordinary_message, (BYTES,), both(Apache.ALWAYS)),
    Case("bytes inside a body", _of_bytes_in_a_body, (BYTES,), both(Apache.ALWAYS), alone=True),
]  # fmt: skip


def test_hole_21_end_of_what_is_not_yours(played: Callable[[], None]) -> None:
    played()
