"""The power of a pair goes off at some disk operations; all of them with ``gantry crash-points --pair``."""

from __future__ import annotations

from typing import Any

import pytest

from gantrymq.broker.replication.port import Port
from gantrymq.simulation.pair.crash import Crash, Point, points, run

SEED = 0
pytestmark = pytest.mark.pure("parts of the broker are replaced while it runs")


def test_every_promise_is_kept_at_some_operations() -> None:
    tried = points(SEED, short=True)
    assert {point.crash for point in tried} == set(Crash)
    for point in tried:
        result = run(SEED, point)
        assert result.good, f"gantry crash-points --pair --point {point}: {[*result.violations, *result.errors]}"
        assert result.injected["power cut"], point


def test_a_point_can_be_written_and_read() -> None:
    point = Point(Crash.BOTH_REPLACED, 17)
    assert Point.parse(str(point)) == point
    for text in ("both", "nobody:1", "both:x"):
        with pytest.raises(ValueError, match=r".+"):
            Point.parse(text)


@pytest.mark.slow
def test_a_primary_that_believes_what_it_has_sent_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes what it has sent for stored by the replica."""
    confirmed = Port.confirmed

    def believes(self: Port, replica: Any) -> None:
        replica.sending.confirmed = replica.sending.next_place
        confirmed(self, replica)

    monkeypatch.setattr(Port, "confirmed", believes)
    grown = Port.grown

    def sends(self: Port, position: int) -> None:
        grown(self, position)
        for replica in self.replicas:
            if replica.follows:
                self.confirmed(replica)

    monkeypatch.setattr(Port, "grown", sends)
    replacing = (point for point in points(SEED) if point.crash.replaces)
    found = next((point for point in replacing if not run(SEED, point).good), None)
    print(f"found at {found}")
    assert found
