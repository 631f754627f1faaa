"""What a client may do with a connection, and what ends it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.grpc.http2 import budget, connection, frames
from gantrymq.grpc.http2.codes import PREFACE, ConnectionFailed, ErrorCode, Flag, Frame, Setting
from gantrymq.grpc.http2.hpack import encode
from tests.grpc.http2.client import CALL, HEADERS, Pair, cut

PRIORITY = b"\x80\x00\x00\x00\x10"
WORD = (1).to_bytes(4, "big")
NOTHING = (0).to_bytes(4, "big")


def test_a_call_comes_with_its_headers_and_data_and_its_answer_ends_the_stream() -> None:
    pair = Pair()
    stream = pair.open(1)
    pair.data(1, b"request", end=True)
    assert pair.heard.headers[1] == list(HEADERS)
    assert (pair.heard.data[1], pair.heard.ended_on) == (b"request", [1])
    sending = pair.server.sending
    sending.headers(stream, encode([(":status", "200")]))
    sending.data(stream, b"answer")
    sending.trailers(stream, encode([("grpc-status", "0")]))
    begin, data, end = pair.answers()
    assert [begin.kind, data.kind, end.kind] == [Frame.HEADERS, Frame.DATA, Frame.HEADERS]
    assert pair.decoder.decode(begin.payload) == [(":status", "200")]
    assert data.payload == b"answer"
    assert end.flags & Flag.END_STREAM
    assert pair.server.streams == {}


@given(st.lists(st.integers(1, 60), max_size=30))
def test_it_does_not_matter_in_which_pieces_bytes_come(sizes: list[int]) -> None:
    pair = Pair(greeted=False)
    said = PREFACE + frames.settings({}) + b"".join(
        frames.frame(Frame.HEADERS, Flag.END_HEADERS, number, pair.block())
        + frames.frame(Frame.DATA, Flag.END_STREAM, number, b"x" * number)
        for number in (1, 3, 5)
    )  # fmt: skip
    for size in [*sizes, len(said)]:
        pair.say(said[:size])
        said = said[size:]
    assert pair.heard.ended_on == [1, 3, 5]
    assert pair.heard.data == {1: b"x", 3: b"xxx", 5: b"xxxxx"}


def test_headers_may_go_on_in_further_frames_and_frames_may_be_padded() -> None:
    pair = Pair()
    block = pair.block()
    padded = b"\x03" + PRIORITY + block[:5] + b"\0" * 3
    pair.say(frames.frame(Frame.HEADERS, Flag.PADDED | Flag.PRIORITY, 1, padded))
    pair.say(frames.frame(Frame.CONTINUATION, 0, 1, block[5:6]))
    pair.say(frames.frame(Frame.CONTINUATION, Flag.END_HEADERS, 1, block[6:]))
    assert CALL in pair.heard.headers[1]
    pair.say(frames.frame(Frame.DATA, Flag.PADDED | Flag.END_STREAM, 1, b"\x02data\0\0"))
    assert pair.heard.data[1] == b"data"


def test_pings_and_settings_are_answered_in_their_order() -> None:
    pair = Pair()
    pair.say(frames.frame(Frame.PING, 0, 0, b"12345678") + frames.settings({Setting.MAX_FRAME_SIZE: 1 << 20}))
    ping, settled = pair.answers()
    assert (ping.kind, ping.flags, ping.payload) == (Frame.PING, Flag.ACK, b"12345678")
    assert (settled.kind, settled.flags) == (Frame.SETTINGS, Flag.ACK)


def test_a_client_is_given_room_again_for_what_it_has_sent() -> None:
    pair = Pair()
    pair.open(1)
    given = {0: 0, 1: 0}
    sent = 0
    while sent < 3 * connection.STREAM_WINDOW:
        pair.data(1, b"x" * 16_384)
        sent += 16_384
        for one in pair.of(Frame.WINDOW_UPDATE):
            given[one.stream] += frames.number(one.payload)
    assert sent - connection.STREAM_WINDOW // 2 <= given[1] <= sent
    for number in itertools.count(3, 2):
        if given[0]:
            break
        pair.open(number)
        for _ in range(connection.STREAM_WINDOW // 16_384):
            pair.data(number, b"x" * 16_384)
            sent += 16_384
            given[0] += sum(frames.number(one.payload) for one in pair.of(Frame.WINDOW_UPDATE) if not one.stream)
    assert sent - connection.CONNECTION_WINDOW // 2 <= given[0] <= sent


def frame(kind: Frame, flags: int, stream: int, payload: bytes) -> Callable[[Pair], None]:
    return lambda pair: pair.say(frames.frame(kind, flags, stream, payload))


def opened(*then: Callable[[Pair], None]) -> Callable[[Pair], None]:
    def do(pair: Pair) -> None:
        pair.open(1)
        for each in then:
            each(pair)

    return do


def setting(name: int, value: int) -> Callable[[Pair], None]:
    payload = name.to_bytes(2, "big") + value.to_bytes(4, "big")
    return frame(Frame.SETTINGS, 0, 0, payload)


@pytest.mark.parametrize(
    ("code", "does"),
    [
        (ErrorCode.FRAME_SIZE_ERROR, lambda pair: pair.say(frames.head(16_385, Frame.DATA, 0, 1))),
        (ErrorCode.PROTOCOL_ERROR, frame(Frame.DATA, 0, 0, b"x")),
        (ErrorCode.PROTOCOL_ERROR, frame(Frame.DATA, 0, 1, b"x")),
        (ErrorCode.PROTOCOL_ERROR, opened(frame(Frame.DATA, Flag.PADDED, 1, b"\x05xx"))),
        (ErrorCode.FRAME_SIZE_ERROR, opened(frame(Frame.DATA, Flag.PADDED, 1, b""))),
        (ErrorCode.PROTOCOL_ERROR, frame(Frame.HEADERS, Flag.END_HEADERS, 2, b"")),
        (ErrorCode.PROTOCOL_ERROR, frame(Frame.HEADERS, Flag.END_HEADERS, 0, b"")),
        (ErrorCode.PROTOCOL_ERROR, frame(Frame.HEADERS, Flag.END_HEADERS | Flag.PRIORITY, 1, b"xx")),
        (ErrorCode.COMPRESSION_ERROR, frame(Frame.HEADERS, Flag.END_HEADERS, 1, b"\x80")),
        (ErrorCode.PROTOCOL_ERROR, frame(Frame.CONTINUATION, Flag.END_HEADERS, 1, b"")),
        (ErrorCode.FRAME_SIZE_ERROR, frame(Frame.PRIORITY, 0, 1, b"1234")),
        (ErrorCode.PROTOCOL_ERROR, frame(Frame.PRIORITY, 0, 0, PRIORITY)),
        (ErrorCode.FRAME_SIZE_ERROR, frame(Frame.RST_STREAM, 0, 1, b"123")),
        (ErrorCode.PROTOCOL_ERROR, frame(Frame.RST_STREAM, 0, 1, WORD)),
        (ErrorCode.FRAME_SIZE_ERROR, frame(Frame.SETTINGS, 0, 0, b"12345")),
        (ErrorCode.FRAME_SIZE_ERROR, frame(Frame.SETTINGS, Flag.ACK, 0, b"123456")),
        (ErrorCode.PROTOCOL_ERROR, frame(Frame.SETTINGS, 0, 1, b"")),
        (ErrorCode.FLOW_CONTROL_ERROR, setting(Setting.INITIAL_WINDOW_SIZE, 1 << 31)),
        (ErrorCode.PROTOCOL_ERROR, setting(Setting.MAX_FRAME_SIZE, 16_383)),
        (ErrorCode.PROTOCOL_ERROR, setting(Setting.MAX_FRAME_SIZE, 1 << 24)),
        (ErrorCode.PROTOCOL_ERROR, setting(Setting.ENABLE_PUSH, 2)),
        (ErrorCode.PROTOCOL_ERROR, frame(Frame.PUSH_PROMISE, 0, 1, b"")),
        (ErrorCode.FRAME_SIZE_ERROR, frame(Frame.PING, 0, 0, b"1234567")),
        (ErrorCode.PROTOCOL_ERROR, frame(Frame.PING, 0, 1, b"12345678")),
        (ErrorCode.FRAME_SIZE_ERROR, frame(Frame.GOAWAY, 0, 0, b"1234")),
        (ErrorCode.PROTOCOL_ERROR, frame(Frame.WINDOW_UPDATE, 0, 0, NOTHING)),
        (ErrorCode.FRAME_SIZE_ERROR, frame(Frame.WINDOW_UPDATE, 0, 0, b"12345")),
        (ErrorCode.FLOW_CONTROL_ERROR, frame(Frame.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff")),
        (ErrorCode.PROTOCOL_ERROR, frame(Frame.WINDOW_UPDATE, 0, 7, WORD)),
        (ErrorCode.PROTOCOL_ERROR, opened(frame(Frame.HEADERS, 0, 3, b""), frame(Frame.PING, 0, 0, b"12345678"))),
        (ErrorCode.PROTOCOL_ERROR, opened(frame(Frame.HEADERS, 0, 3, b""), frame(Frame.CONTINUATION, 4, 1, b""))),
    ],
)
def test_what_breaks_a_rule_ends_the_connection_with_a_reason(code: ErrorCode, does: Callable[[Pair], None]) -> None:
    pair = Pair()
    with pytest.raises(ConnectionFailed) as failed:
        does(pair)
    assert failed.value.code == code
    farewell = pair.of(Frame.GOAWAY)[-1].payload
    assert frames.number(farewell[4:8]) == code
    assert farewell[8:].decode() == str(failed.value)


@pytest.mark.parametrize(
    ("code", "does"),
    [
        (ErrorCode.STREAM_CLOSED, lambda pair: pair.data(1, b"x", end=True) or pair.data(1, b"more")),
        (ErrorCode.PROTOCOL_ERROR, lambda pair: pair.open(1)),
        (ErrorCode.PROTOCOL_ERROR, frame(Frame.WINDOW_UPDATE, 0, 1, NOTHING)),
        (ErrorCode.FLOW_CONTROL_ERROR, frame(Frame.WINDOW_UPDATE, 0, 1, b"\x7f\xff\xff\xff")),
    ],
)
def test_what_breaks_a_rule_of_one_stream_ends_only_that(code: ErrorCode, does: Callable[[Pair], None]) -> None:
    pair = Pair()
    pair.open(1)
    try:
        does(pair)
    except KeyError:
        assert pair.server.streams == {}, "the helper looks for the stream"
    assert [(one.stream, frames.number(one.payload)) for one in pair.of(Frame.RST_STREAM)] == [(1, code)]
    assert pair.heard.given_up_on == [1]
    pair.open(3, end=True)
    assert pair.heard.ended_on[-1] == 3


def test_more_data_than_there_is_room_for_is_refused() -> None:
    pair = Pair()
    stream = pair.open(1)
    stream.room = 3
    pair.data(1, b"xxxx")
    assert frames.number(pair.of(Frame.RST_STREAM)[0].payload) == ErrorCode.FLOW_CONTROL_ERROR
    pair.server._room = 3
    with pytest.raises(ConnectionFailed):
        pair.data(1, b"xxxx")


def test_it_must_begin_as_http_2_does() -> None:
    for said in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\x00\x00\x10{}",
        PREFACE + frames.frame(Frame.PING, 0, 0, b"12345678"),
    ):
        with pytest.raises(ConnectionFailed):
            Pair(greeted=False).say(said)
    with pytest.raises(ConnectionFailed):
        Pair(greeted=False).say(PREFACE + frames.frame(Frame.SETTINGS, Flag.ACK, 0, b""))


def test_frames_of_a_stream_that_is_over_were_under_way_and_harm_nobody() -> None:
    pair = Pair()
    stream = pair.open(1)
    pair.server.reset(stream, ErrorCode.CANCEL)
    pair.answers()
    for kind, payload in ((Frame.DATA, b"late"), (Frame.WINDOW_UPDATE, WORD), (Frame.RST_STREAM, WORD)):
        pair.say(frames.frame(kind, 0, 1, payload))
    pair.say(frames.frame(Frame.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, 1, pair.block()))
    assert pair.answers() == []
    assert pair.heard.given_up_on == []


def test_an_answer_before_the_end_of_the_request_says_that_the_rest_is_not_needed() -> None:
    pair = Pair()
    stream = pair.open(1)
    pair.server.sending.trailers(stream, encode([("grpc-status", "8")]))
    trailers, reset = pair.answers()
    assert trailers.flags & Flag.END_STREAM
    assert (reset.kind, frames.number(reset.payload)) == (Frame.RST_STREAM, ErrorCode.NO_ERROR)


def test_a_client_that_gives_up_is_heard_once() -> None:
    pair = Pair()
    pair.open(1)
    pair.say(frames.reset(1, ErrorCode.CANCEL) + frames.reset(1, ErrorCode.CANCEL))
    assert pair.heard.given_up_on == [1]
    assert pair.server.streams == {}


def test_too_many_calls_at_a_time_are_refused_and_may_be_asked_again() -> None:
    pair = Pair()
    for number in range(connection.STREAMS):
        pair.open(2 * number + 1)
    late = 2 * connection.STREAMS + 1
    pair.say(frames.frame(Frame.HEADERS, Flag.END_HEADERS, late, pair.block()))
    (refused,) = pair.of(Frame.RST_STREAM)
    assert (refused.stream, frames.number(refused.payload)) == (late, ErrorCode.REFUSED_STREAM)
    pair.say(frames.reset(1, ErrorCode.CANCEL))
    pair.open(late + 2)


def test_a_connection_that_ends_takes_no_more_calls() -> None:
    pair = Pair()
    pair.open(1)
    pair.server.close(ErrorCode.NO_ERROR, "the server stops")
    (farewell,) = pair.of(Frame.GOAWAY)
    assert frames.number(farewell.payload[:4]) == 1
    pair.say(frames.frame(Frame.HEADERS, Flag.END_HEADERS, 3, pair.block()))
    assert frames.number(pair.of(Frame.RST_STREAM)[0].payload) == ErrorCode.REFUSED_STREAM
    pair.data(1, b"still", end=True)
    assert pair.heard.ended_on == [1]


def test_a_client_with_a_smaller_table_is_told_that_ours_is_empty() -> None:
    pair = Pair()
    pair.settings(Setting.HEADER_TABLE_SIZE, 0)
    pair.answers()
    stream = pair.open(1)
    pair.decoder.max_allowed_table_size = 0
    pair.server.sending.headers(stream, encode([(":status", "200")]))
    (begin,) = pair.answers()
    assert pair.decoder.decode(begin.payload) == [(":status", "200")]


FLOODS = {
    "pings": frames.frame(Frame.PING, 0, 0, b"12345678"),
    "settings": frames.settings({}),
    "windows": frames.settings({Setting.INITIAL_WINDOW_SIZE: 1 << 20}),
    "empty data": frames.frame(Frame.DATA, 0, 1, b""),
    "priorities": frames.frame(Frame.PRIORITY, 0, 1, PRIORITY),
    "unknown": frames.frame(Frame.PRIORITY, 0, 0, b"").replace(b"\x02", b"\x20", 1),
    "windows of streams": frames.more_room(1, 1),
    "farewells": frames.go_away(0, ErrorCode.NO_ERROR),
    "confirmations": frames.frame(Frame.SETTINGS, Flag.ACK, 0, b""),
    "answers to pings": frames.frame(Frame.PING, Flag.ACK, 0, b"12345678"),
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_of_frames_that_ask_for_nothing_ends_the_connection(flood: str) -> None:
    pair = Pair()
    pair.open(1)
    with pytest.raises(ConnectionFailed) as failed:
        for _ in range(budget.UNITS // 100 + 2):
            pair.say(FLOODS[flood] * 100)
    assert failed.value.code == ErrorCode.ENHANCE_YOUR_CALM


def test_calls_that_are_given_up_at_once_end_the_connection_in_the_end() -> None:
    pair = Pair()
    with pytest.raises(ConnectionFailed) as failed:
        for number in range(1, 4 * budget.UNITS // budget.GIVEN_UP, 2):
            pair.open(number)
            pair.say(frames.reset(number, ErrorCode.CANCEL))
    assert failed.value.code == ErrorCode.ENHANCE_YOUR_CALM


def test_a_new_window_costs_what_it_makes_the_server_do() -> None:
    few, many = Pair(), Pair()
    for number in range(connection.STREAMS):
        many.open(2 * number + 1)
    for pair in (few, many):
        pair.settings(Setting.INITIAL_WINDOW_SIZE, 1 << 20)
    assert few.server._budget._left - many.server._budget._left >= connection.STREAMS


def test_an_honest_client_may_do_this_for_ever() -> None:
    pair = Pair()
    for number in range(1, 40_001, 2):
        stream = pair.open(number, end=True)
        pair.say(frames.frame(Frame.PING, 0, 0, b"12345678") + frames.more_room(0, 10) + frames.more_room(number, 5))
        pair.server.sending.headers(stream, b"\x88")
        pair.server.sending.data(stream, b"x" * 10)
        pair.server.sending.trailers(stream, b"\x88")
        pair.answers()
    pair.now += 3600
    for _ in range(1000):
        pair.say(frames.frame(Frame.PING, 0, 0, b"12345678"))


@pytest.mark.parametrize("piece", [b"", b"\0"])
def test_a_header_block_in_many_pieces_ends_the_connection(piece: bytes) -> None:
    pair = Pair()
    pair.say(frames.frame(Frame.HEADERS, 0, 1, b""))
    with pytest.raises(ConnectionFailed) as failed:
        for _ in range(connection.BLOCK_FRAMES + 1):
            pair.say(frames.frame(Frame.CONTINUATION, 0, 1, piece * 1000))
    assert failed.value.code == ErrorCode.ENHANCE_YOUR_CALM


KINDS = st.sampled_from([*Frame, 10, 200])


@given(st.lists(st.tuples(KINDS, st.integers(0, 255), st.integers(0, 9), st.binary(max_size=40)), max_size=25))
def test_any_frames_are_handled_or_end_the_connection(said: list[tuple[int, int, int, bytes]]) -> None:
    pair = Pair()
    pair.open(1)
    for kind, flags, stream, payload in said:
        head = frames.HEAD.pack(0, len(payload), kind, flags, stream)
        try:
            pair.say(head + payload)
        except ConnectionFailed:
            assert list(cut(pair.server.sending.take()))[-1].kind == Frame.GOAWAY
            return
    assert set(pair.heard.given_up_on).isdisjoint(pair.server.streams)


@given(st.binary(max_size=200))
def test_any_bytes_are_handled_or_end_the_connection(said: bytes) -> None:
    for beginning in (b"", PREFACE, PREFACE + frames.settings({})):
        pair = Pair(greeted=False)
        try:
            pair.say(beginning + said)
        except ConnectionFailed:
            continue
        assert pair.server.incomplete_bytes <= len(PREFACE) + len(said)
