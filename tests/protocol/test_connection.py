from __future__ import annotations

import pytest

from gantrymq.errors import LocalProtocolError, RemoteProtocolError
from gantrymq.protocol.command import decode_command, encode_request, encode_response
from gantrymq.protocol.connection import MAX_PENDING, Connection
from gantrymq.protocol.frame import FrameSplitter


def answer_to(frame: bytes, code: int = 0) -> bytes:
    ((serialization, header, body),) = FrameSplitter().feed(frame)
    return encode_response(decode_command(serialization, header, body), code)


def test_answers_find_their_requests_in_any_order_and_any_pieces() -> None:
    ours: Connection[str] = Connection()
    frames = {}
    for name in ("a", "b", "c"):
        opaque = ours.next_opaque()
        ours.expect(opaque, name, deadline=10)
        frames[name] = encode_request(105, opaque)
    assert ours.pending == 3
    stream = b"".join(answer_to(frames[name]) for name in ("c", "a", "b"))
    found = []
    for byte in stream:
        found += [ours.answered(command) for command in ours.receive(bytes((byte,)))]
    assert found == ["c", "a", "b"]
    assert ours.pending == 0


def test_requests_of_the_peer_are_told_from_answers() -> None:
    ours: Connection[str] = Connection()
    opaque = ours.next_opaque()
    ours.expect(opaque, "mine", deadline=10)
    (push,) = ours.receive(encode_request(40, opaque, one_way=True))  # both sides may use the same number
    assert not push.is_response
    assert push.is_one_way
    assert ours.pending == 1


def test_an_answer_nobody_waits_for_is_nobodys() -> None:
    ours: Connection[str] = Connection()
    frame = encode_request(105, ours.next_opaque())
    (command,) = ours.receive(answer_to(frame))
    assert ours.answered(command) is None


def test_deadlines_are_those_of_each_request() -> None:
    ours: Connection[str] = Connection()
    first, second = ours.next_opaque(), ours.next_opaque()
    ours.expect(first, "first", deadline=5)
    ours.expect(second, "second", deadline=3)
    assert ours.expired(now=2.9) == []
    assert ours.expired(now=3) == ["second"]
    assert ours.expired(now=100) == ["first"]
    (late,) = ours.receive(answer_to(encode_request(105, first)))
    assert ours.answered(late) is None


def test_a_lost_connection_gives_everybody_back() -> None:
    ours: Connection[str] = Connection()
    for name in ("a", "b"):
        ours.expect(ours.next_opaque(), name, deadline=1)
    assert ours.abandon() == ["a", "b"]
    assert ours.pending == 0


def test_numbers_stay_within_31_bits() -> None:
    ours: Connection[str] = Connection()
    ours._next_opaque = 0x7FFFFFFF
    assert ours.next_opaque() == 0


def test_the_number_of_open_requests_is_limited() -> None:
    ours: Connection[int] = Connection()
    for opaque in range(MAX_PENDING):
        ours.expect(opaque, opaque, deadline=1)
    with pytest.raises(LocalProtocolError, match="slow down"):
        ours.expect(MAX_PENDING, 3, deadline=1)


def test_garbage_raises_after_the_commands_before_it() -> None:
    ours: Connection[str] = Connection()
    received = ours.receive(encode_request(40, 1) + b"\0\0\0\5\0\0\0\1x")
    assert next(received).code == 40
    with pytest.raises(RemoteProtocolError, match="malformed JSON header"):
        next(received)
