"""Every order of checks and commit, before and after the longest time."""

from __future__ import annotations

import itertools
from typing import cast

import pytest

from gantrymq.client.sending.longest_transaction import COMMITTING, GIVEN_UP, RUNNING, LongestTransaction
from gantrymq.runtime.clock import Clock

STEPS = ("check", "commit", "time")


class Watch:
    now = 5.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize("steps", list(itertools.product(STEPS, repeat=4)), ids=" ".join)
def test_it_commits_or_is_given_up(steps: tuple[str, ...]) -> None:
    watch = Watch()
    longest = LongestTransaction(cast("Clock", watch), 60)
    late, state = False, RUNNING
    for step in steps:
        if step == "time":
            late, watch.now = True, 65.0
        elif step == "commit":
            if state is RUNNING:
                state = COMMITTING
            assert longest.commit() is (state is COMMITTING)
        else:
            if state is RUNNING and late:
                state = GIVEN_UP
            assert longest.asked() is state
        assert longest.given_up is (state is GIVEN_UP)
