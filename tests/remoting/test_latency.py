"""What a server measures of its requests: real sockets, and a clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
from tests.remoting.test_remoting import breaks, client, echo, refuse, run, silent

from gantrymq.observability.metrics import Histogram
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, SerializeType, encode_request, encode_response
from gantrymq.remoting.latency import RequestLatency
from gantrymq.remoting.server import Handler, RemotingServer
from gantrymq.remoting.session import Session
from gantrymq.runtime.addresses import split_address
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import TcpNetwork

_CODES = RequestCode
ANSWERED, REFUSED, BROKEN, NEVER = _CODES.GET_MAX_OFFSET, _CODES.GET_MIN_OFFSET, _CODES.QUERY_MESSAGE, _CODES.HEART_BEAT
LATER, HELD = _CODES.SEND_MESSAGE, _CODES.PULL_MESSAGE


class SetClock(SystemClock):
    """The system's clock, whose monotonic time a test sets."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


def counts(latency: RequestLatency) -> dict[tuple[str, str, str, str], int]:
    """How often, by request, response, whether it was held, and result."""
    return {
        (labels[1], labels[2], labels[3], labels[4]): sum(histogram.counts)
        for labels, histogram in latency.read()
        if isinstance(histogram, Histogram)
    }


def command(arrived: float, code: int = 10) -> Command:
    return Command(code=code, arrived=arrived)


def test_answers_of_one_read_are_counted_together_and_their_time_is_taken_once() -> None:
    clock = SetClock()
    latency = RequestLatency(clock)
    frame = encode_response(command(0), 0)
    for _ in range(3):
        latency.answered(command(99.998), frame)
    latency.answered(command(99.5), frame)  # of an earlier read: the times of the three end here
    latency.answered(command(99.998), frame, held=True)
    clock.now = 100.25
    latency.take()
    clock.now = 200.0
    ((plain_labels, plain), (held_labels, held)) = latency.read()
    assert (plain_labels[3], held_labels[3]) == ("false", "true")
    assert isinstance(plain, Histogram) and isinstance(held, Histogram)
    assert plain.counts == [0, 3, 0, 0, 0, 0, 1, 0, 0, 0] and plain.sum == pytest.approx(3 * 2 + 500)
    assert sum(held.counts) == 1 and held.sum == pytest.approx(252)


@pytest.mark.parametrize("serialize", list(SerializeType))
def test_the_code_of_every_answer_is_found_in_its_frame(serialize: SerializeType) -> None:
    latency = RequestLatency(SetClock())
    asked = Command(code=10, serialize=serialize, arrived=1.0)
    for code in ResponseCode:
        latency.answered(asked, encode_response(asked, code, remark="why", body=b"x,y"))
    assert counts(latency) == {("send_message", code.name.lower(), "false", "success"): 1 for code in ResponseCode}


def test_codes_that_nobody_knows_are_counted_together() -> None:
    """A stranger who invents codes must not fill the memory."""
    latency = RequestLatency(SetClock())
    for code in range(50_000, 52_000):
        asked = command(1.0, code)
        latency.answered(asked, encode_response(asked, ResponseCode.REQUEST_CODE_NOT_SUPPORTED))
    assert counts(latency) == {("unknown", "request_code_not_supported", "false", "success"): 2_000}


def test_a_server_measures_what_it_answers_now_later_and_never() -> None:
    async def scenario() -> None:
        clock = SystemClock()

        def later(session: Session, command: Command, *, held: bool) -> None:
            answer: Callable[[], None] = partial(session.answer, command, encode_response(command, 0), held=held)
            clock.call_later(0.02, answer)

        handlers: dict[int, Handler] = {
            ANSWERED: echo, REFUSED: refuse, BROKEN: breaks, NEVER: silent,
            LATER: partial(later, held=False), HELD: partial(later, held=True),
        }  # fmt: skip
        running = RemotingServer(TcpNetwork(), clock, handlers)
        address = await running.start("127.0.0.1", 0)
        peer = client()
        for code in (ANSWERED, ANSWERED, REFUSED, BROKEN, LATER, HELD, 31999):
            await peer.call(address, code, timeout_ms=5000)
        _, writer = await asyncio.open_connection(*split_address(address))
        for code in (ANSWERED, NEVER, REFUSED, LATER):
            writer.write(encode_request(code, 1, one_way=True))
        await writer.drain()
        wanted = {
            ("get_max_offset", "success", "false", "success"): 2,
            ("get_min_offset", "message_illegal", "false", "success"): 1,
            ("query_message", "system_error", "false", "success"): 1,
            ("send_message", "success", "false", "success"): 1,
            ("pull_message", "success", "true", "success"): 1,
            ("unknown", "request_code_not_supported", "false", "success"): 1,
            ("get_max_offset", "success", "false", "oneway"): 1,
            ("heart_beat", "success", "false", "oneway"): 1,
            ("get_min_offset", "message_illegal", "false", "oneway"): 1,
            ("send_message", "success", "false", "oneway"): 1,
        }
        while len(counts(running.latency)) < len(wanted):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # the answer to the one-way request that comes later is not sent, and not counted
        assert counts(running.latency) == wanted
        (waited,) = [found for labels, found in running.latency.read() if labels[3] == "true"]
        assert isinstance(waited, Histogram) and 15 < waited.sum < 5000
        writer.close()
        await peer.close()
        await running.close()

    run(scenario)
