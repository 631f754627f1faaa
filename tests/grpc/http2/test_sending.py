"""What is sent never exceeds the windows, comes in order, and no stream waits for another one without need."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.grpc.http2 import frames
from gantrymq.grpc.http2.codes import FIRST_WINDOW, ErrorCode, Flag, Frame, Setting
from gantrymq.grpc.http2.sending import TURN_BYTES
from tests.grpc.http2.client import Pair

NUMBERS = (1, 3, 5, 7)
ACTIONS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(NUMBERS), st.integers(0, 150_000)),
    st.tuples(st.just("end"), st.sampled_from(NUMBERS), st.just(0)),
    st.tuples(st.just("whole"), st.sampled_from(NUMBERS), st.integers(0, 40_000)),
    st.tuples(st.just("room"), st.sampled_from(NUMBERS), st.integers(1, 200_000)),
    st.tuples(st.just("room of all"), st.just(1), st.integers(1, 300_000)),
    st.tuples(st.just("first window"), st.just(1), st.integers(0, 200_000)),
    st.tuples(st.just("give up"), st.sampled_from(NUMBERS), st.just(0)),
)


class Model:
    """What the client knows: its windows, and what it should get."""

    def __init__(self) -> None:
        self.pair = Pair()
        self.streams = {number: self.pair.open(number, end=True) for number in NUMBERS}
        self.window = self.first = FIRST_WINDOW
        self.windows = dict.fromkeys(NUMBERS, FIRST_WINDOW)
        self.asked = list[int]()
        """First windows that the server has not confirmed. Those of clients for C++ count from there on only."""
        self.wanted = dict.fromkeys(NUMBERS, b"")
        self.got = dict.fromkeys(NUMBERS, b"")
        self.ending: set[int] = set()
        self.over: set[int] = set()

    def do(self, what: str, number: int, size: int) -> None:
        sending, stream = self.pair.server.sending, self.streams[number]
        if what in ("send", "end", "whole") and number in self.over | self.ending:
            return
        if what == "send":
            data = bytes((len(self.wanted[number]) + place) % 251 for place in range(size))
            self.wanted[number] += data
            sending.data(stream, data)
        elif what == "whole":
            data = bytes((len(self.wanted[number]) + place) % 251 for place in range(size))
            self.wanted[number] += data
            self.ending.add(number)
            sending.whole(stream, b"\x88", data, b"\x88")
        elif what == "end":
            self.ending.add(number)
            sending.trailers(stream, b"\x88")
        elif what == "room":
            self.windows[number] += size
            self.pair.say(frames.more_room(number, size))
        elif what == "room of all":
            self.window += size
            self.pair.say(frames.more_room(0, size))
        elif what == "first window":
            self.asked.append(size)
            self.pair.settings(Setting.INITIAL_WINDOW_SIZE, size)
        else:
            self.over.add(number)
            self.pair.say(frames.reset(number, ErrorCode.CANCEL))

    def hear(self) -> None:
        for one in self.pair.answers():
            if one.kind == Frame.DATA:
                assert one.stream not in self.over
                self.got[one.stream] += one.payload
                self.window -= len(one.payload)
                self.windows[one.stream] -= len(one.payload)
                assert self.window >= 0
                assert not one.payload or self.windows[one.stream] >= 0
            elif one.kind == Frame.SETTINGS and one.flags & Flag.ACK and self.asked:
                size = self.asked.pop(0)
                self.windows = {number: have + size - self.first for number, have in self.windows.items()}
                self.first = size
            elif one.kind == Frame.HEADERS and one.flags & Flag.END_STREAM:
                assert self.got[one.stream] == self.wanted[one.stream], "the end came before the rest"
                self.over.add(one.stream)

    def judge(self) -> None:
        alive = [number for number in NUMBERS if number not in self.over]
        for number in alive:
            assert self.wanted[number].startswith(self.got[number])
            if self.window > 0 and self.windows[number] > 0:
                assert self.got[number] == self.wanted[number], "there was room"
        waiting = sum(len(self.wanted[number]) - len(self.got[number]) for number in alive)
        assert self.pair.server.sending.queued == waiting


@given(st.lists(ACTIONS, max_size=40))
def test_the_windows_hold_and_everything_comes_in_order(actions: list[tuple[str, int, int]]) -> None:
    model = Model()
    for action in actions:
        model.do(*action)
        model.hear()
        model.judge()


def test_streams_take_turns() -> None:
    pair = Pair()
    sending = pair.server.sending
    pair.settings(Setting.INITIAL_WINDOW_SIZE, 1 << 30)
    for number in (1, 3):
        sending.data(pair.open(number, end=True), b"x" * (4 * TURN_BYTES))
    pair.answers()
    order = []
    for _ in range(4):
        pair.say(frames.more_room(0, TURN_BYTES))
        order.append({one.stream for one in pair.of(Frame.DATA)})
    assert order == [{1}, {3}, {1}, {3}]


def test_whoever_waits_for_room_is_told_when_all_is_sent() -> None:
    pair = Pair()
    stream = pair.open(1, end=True)
    pair.server.sending.data(stream, b"x" * (FIRST_WINDOW + 10))
    stream.waits = True
    pair.say(frames.more_room(0, 5) + frames.more_room(1, 100))
    assert pair.heard.drained_on == []
    pair.say(frames.more_room(0, 5))
    assert pair.heard.drained_on == [1]


def test_nothing_is_sent_at_once_also_without_room() -> None:
    pair = Pair()
    stream = pair.open(1, end=True)
    sending = pair.server.sending
    sending.data(stream, b"x" * 10)
    pair.settings(Setting.INITIAL_WINDOW_SIZE, 0)
    sending.data(stream, b"")
    assert not stream.queue
    pair.settings(Setting.INITIAL_WINDOW_SIZE, 1 << 20)
    assert [one.payload for one in pair.of(Frame.DATA)] == [b"x" * 10]
