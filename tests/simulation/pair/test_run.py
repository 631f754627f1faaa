"""A primary and its replica change places, and lose machines and lines; more with ``gantry simulate --pair``.

A simulation that finds nothing in a broken broker proves nothing about a whole one: each defect below is found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from gantrymq.broker import broker
from gantrymq.broker.replication.copies import Copies
from gantrymq.simulation.pair.run import DEFAULT, run
from gantrymq.simulation.run import Plan
from gantrymq.store.message_store import MessageStore
from tests.simulation.defects import nothing_is_compared

pytestmark = pytest.mark.pure("parts of the broker are replaced while it runs")
Patch = pytest.MonkeyPatch
FAST_DISKS: Final = replace(DEFAULT, faults=tuple(name for name in DEFAULT.faults if name != "slow disks"))
"""With another list of faults a seed is another run."""


@pytest.mark.parametrize("seed", range(12))
def test_every_promise_is_kept(seed: int) -> None:
    result = run(seed)
    assert result.good, f"gantry simulate --pair --seed {seed}: {[*map(str, result.violations), *result.errors]}"


@pytest.mark.parametrize("seed", [300_430, 303_348])
def test_what_was_held_at_a_start_is_in_its_queue_behind_a_loss_of_power(seed: int) -> None:
    """The directories of its queue had been made by a process that was killed, and nobody had synced them."""
    result = run(seed, FAST_DISKS)
    assert result.good, [*map(str, result.violations), *result.errors]


def test_machines_change_places_and_are_lost() -> None:
    happened = {name for seed in range(12) for name, count in run(seed).injected.items() if count}
    assert happened >= {"places changed", "replica forced to be primary", "power cut", "process killed",
    "primary restarted with unconfirmed records"}  # fmt: skip


def _everything_is_copied(patch: Patch) -> None:
    """A SYNC_MASTER answers as soon as a replica is there."""
    confirm = Copies.confirm
    patch.setattr(Copies, "confirm", lambda self, name, _end: confirm(self, name, 1 << 62))


def _no_topics(patch: Patch) -> None:
    """A promoted replica makes no topics."""
    patch.setattr(broker, "take_over", lambda *_: None)


def _what_is_found_counts(patch: Patch) -> None:
    """A SYNC_MASTER that is started again counts what it finds as copied."""
    opened = MessageStore.open.__func__  # type: ignore[attr-defined]
    patch.setattr(
        MessageStore, "open", classmethod(lambda cls, *given, **more: opened(cls, *given, **{**more, "waits": False}))
    )


DEFECTS: dict[str, tuple[Callable[[Patch], None], range, Plan]] = {
    "everything is copied": (_everything_is_copied, range(40), DEFAULT),
    "nothing is compared": (nothing_is_compared, range(100), DEFAULT),
    "no topics are made": (_no_topics, range(98, 198), FAST_DISKS),
    "what is found counts": (_what_is_found_counts, range(38, 138), DEFAULT),
}
"""Each defect, and the seeds within which it is found. They begin shortly before the one that finds it."""


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    defect, seeds, plan = DEFECTS[name]
    defect(monkeypatch)
    found: Any = next((seed for seed in seeds if not run(seed, plan).good), None)
    print(f"{name}: seed {found}")
    assert found is not None
