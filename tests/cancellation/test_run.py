"""The calls of the asyncio client, cancelled at each of their steps: one calm seed here, more by the command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.consuming.queue_locks import QueueLocks
from gantrymq.client.sending.delivery import Delivery
from gantrymq.client.sending.half_memory import HalfMemory
from gantrymq.client.sending.replies import Replies
from gantrymq.errors import TimedOut
from tests.cancellation import run as cancellation
from tests.cancellation.calls import CALLS
from tests.cancellation.run import run
from tests.cancellation.world import Call

SEED = 0


def named(*names: str) -> list[Call]:
    return [call for call in CALLS if call.name in names]


@pytest.mark.parametrize("name", [call.name for call in CALLS])
def test_a_call_can_be_cancelled_at_every_step(name: str) -> None:
    report = run([SEED], named(name))
    assert not report.violations, f"python -m tests.cancellation.run --first {SEED} --call {name!r}"
    assert report.points[name] > 0


def test_a_rough_network_is_survived_too() -> None:
    calls = named("TransactionProducer.send_in_transaction, async", "PushConsumer.start", "Producer.request")
    report = run([SEED + 1], calls, rough=True)
    assert not report.violations and report.points.total() > 50


# Planted defects. Each is found in a call named here.


def _no_forgetting(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replies, "forget", lambda self, correlation: None)


def _no_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HalfMemory, "ended", lambda self, transaction_id, state: None)


def _locks_kept(patch: pytest.MonkeyPatch) -> None:
    async def close(self: QueueLocks) -> None:
        await self.give_back(list(self._until), wait=True)

    patch.setattr(QueueLocks, "close", close)


def _swallowed(patch: pytest.MonkeyPatch) -> None:
    deliver: Callable[..., Any] = Delivery.deliver

    async def swallowing(self: Delivery, *arguments: Any, **more: Any) -> Any:
        try:
            return await deliver(self, *arguments, **more)
        except asyncio.CancelledError as error:
            raise TimedOut("it", 1) from error

    patch.setattr(Delivery, "deliver", swallowing)


def _closed_by_halves(patch: pytest.MonkeyPatch) -> None:
    async def close(self: Endpoint, leave: Callable[[], Any] | None = None) -> None:
        if self._closed:
            return
        self.stop_accepting()
        self._closed = True
        await self._close(leave)

    patch.setattr(Endpoint, "close", close)


def _left_behind(patch: pytest.MonkeyPatch) -> None:
    send: Callable[..., Any] = Delivery.deliver

    async def counting(self: Delivery, *arguments: Any, **more: Any) -> Any:
        self.in_flight += 1
        answer = await send(self, *arguments, **more)
        self.in_flight -= 1
        return answer

    patch.setattr(Delivery, "deliver", counting)


@pytest.mark.pure("a part of the client is replaced while it runs")
@pytest.mark.parametrize(
    ("plant", "name", "said"),
    [
        (_no_forgetting, "Producer.request", "wait for a reply"),
        (_no_end, "TransactionProducer.send_in_transaction, async", "count as running"),
        (_locks_kept, "PushConsumer.start, orderly", "missing"),
        (_swallowed, "Producer.send, first", "swallowed"),
        (_closed_by_halves, "PushConsumer.close", "after close"),
        (_left_behind, "Producer.send, first", "in_flight is 1"),
    ],
)
def test_a_planted_defect_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    report = run([SEED], named(name))
    assert any(said in violation for violation in report.violations), report.violations


def test_the_command_says_how_many_points_were_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert cancellation.main(["--call", "PullConsumer.commit"]) == 0
    reported = capsys.readouterr().out
    assert "PullConsumer.commit" in reported and "points, 0 violations" in reported
    assert cancellation.main(["--list"]) == 0
    assert capsys.readouterr().out.splitlines() == [call.name for call in CALLS]
