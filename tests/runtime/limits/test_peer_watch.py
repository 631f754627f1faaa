"""When a peer counts as gone: silent, without a request, or not reading."""

from __future__ import annotations

import pytest

from gantrymq.runtime.limits.peer_watch import IDLE_SECONDS, PeerWatch

BEGAN = 1_000.0


@pytest.fixture
def watch() -> PeerWatch:
    return PeerWatch(BEGAN)


def test_a_peer_that_never_asks_has_its_time(watch: PeerWatch) -> None:
    assert not watch.never_asked(BEGAN + 10, 10)
    assert watch.never_asked(BEGAN + 10.1, 10)
    assert not watch.never_asked(BEGAN + 1e6, 0), "0 seconds: no limit"
    watch.asked = True
    assert not watch.never_asked(BEGAN + 10.1, 10)


def test_a_peer_is_idle_when_nothing_came_for_long(watch: PeerWatch) -> None:
    watch.heard_at = BEGAN + 5
    assert not watch.is_idle(BEGAN + 5 + IDLE_SECONDS)
    assert watch.is_idle(BEGAN + 5.1 + IDLE_SECONDS)


def test_a_peer_that_reads_slowly_is_not_stuck(watch: PeerWatch) -> None:
    watch.reads_no_more(BEGAN, 1_000)
    assert not watch.is_stuck(BEGAN + 9, 1_000, 10)
    assert not watch.is_stuck(BEGAN + 18, 999, 10), "it took a byte"
    assert not watch.is_stuck(BEGAN + 28, 2_000, 10), "more was sent meanwhile"
    assert watch.is_stuck(BEGAN + 28.1, 2_000, 10)
    assert not watch.is_stuck(BEGAN + 28.1, 2_000, 0), "0 seconds: no limit"
