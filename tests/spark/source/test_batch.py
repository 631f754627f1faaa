"""Where a batch begins and ends, with a broker in a dict and without Spark."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")
from gantrymq.errors import ConfigError, GantryError
from gantrymq.message.queues import MessageQueue
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.options.bounds import Instant
from gantrymq.spark.options.table import SourceSettings
from gantrymq.spark.source.batch import BatchReader
from gantrymq.spark.source.planning import Planner
from tests.spark.fakes import START_MS, FakeBroker, SteppedClock

Q0, Q1 = MessageQueue("orders", "b", 0), MessageQueue("orders", "b", 1)


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.fill(Q0, 10)
    made.fill(Q1, 20)
    return made


def ranges(broker: FakeBroker, **settings: Any) -> list[str]:
    chosen = SourceSettings("h:1", topics=("orders",), **settings).for_batch()
    planner = Planner(chosen, broker, SteppedClock(), SystemRng(1))
    return [str(part) for part in BatchReader(chosen, ("body",))._ranges(planner)]


def test_a_start_behind_the_end_is_refused(broker: FakeBroker) -> None:
    """It would be a batch without rows."""
    assert ranges(broker, starting={Q0: 4, Q1: 20}, ending={Q0: 4, Q1: 20}) == []
    with pytest.raises(ConfigError, match=r"ends before it starts: orders/b/1 from 9 to 8; correct"):
        ranges(broker, starting={Q1: 9}, ending={Q1: 8})
    with pytest.raises(ConfigError, match=r"startingTimestamp \(9\) is after that of endingTimestamp \(8\)"):
        ranges(broker, starting=Instant(9), ending=Instant(8))
    with pytest.raises(ConfigError, match="ends before it starts: orders/b/0 from 7 to 5"):
        ranges(broker, starting=Instant(START_MS + 7), ending={Q0: 5})


def test_an_end_before_the_oldest_message_is_lost_data(broker: FakeBroker) -> None:
    broker.minimum[Q0] = 5
    with pytest.raises(GantryError, match=r"were deleted: orders/b/0 from 5 to 3\. With the option failOnDataLoss"):
        ranges(broker, ending={Q0: 3})
    assert ranges(broker, ending={Q0: 3}, fail_on_data_loss=False) == ["orders/b/1 [0, 20)"]
