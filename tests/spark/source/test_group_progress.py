from __future__ import annotations

from gantrymq.message.queues import MessageQueue
from gantrymq.spark.source.group_progress import EVERY_S, GroupProgress
from tests.spark.fakes import FakeBroker, SteppedClock, away

Q0, Q1 = MessageQueue("orders", "b", 0), MessageQueue("orders", "b", 1)


def test_it_is_stored_now_and_then_and_at_the_end() -> None:
    broker, clock = FakeBroker(), SteppedClock()
    progress = GroupProgress(broker, clock)
    progress.reached({Q0: 5, Q1: 0}, now=False)
    assert broker.committed == {Q0: 5, Q1: 0}
    progress.reached({Q0: 6, Q1: 0}, now=False)
    assert broker.committed[Q0] == 5
    clock.now += EVERY_S
    progress.reached({Q0: 7, Q1: 0}, now=False)
    assert broker.committed[Q0] == 7
    progress.reached({Q0: 8, Q1: 1}, now=True)
    assert broker.committed == {Q0: 8, Q1: 1}


def test_a_broker_that_is_away_is_asked_again_and_disturbs_nobody() -> None:
    broker = FakeBroker()
    progress = GroupProgress(broker, SteppedClock())
    broker.refusals = away(1)
    progress.reached({Q0: 5, Q1: 6}, now=True)
    assert broker.committed == {}
    progress.reached({Q0: 5, Q1: 6}, now=True)
    assert broker.committed == {Q0: 5, Q1: 6}
    broker.refusals = away(1)
    progress.reached({Q0: 5, Q1: 6}, now=True)
    assert broker.refusals, "what is stored is not stored again"
