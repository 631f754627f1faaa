"""Transactions compared with a model: the guarantees hold for any order of events."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from gantrymq.message.system_topics import HALF
from gantrymq.message.transaction import Resolution
from tests.broker.transaction_lab import DONE, Ended, Half, Lab, LabClient

DECISIONS = st.sampled_from([Resolution.COMMIT, Resolution.ROLLBACK])


@dataclass
class Sent:
    """One transaction as its producer sees it."""

    half: Half
    asked: list[tuple[Resolution, Ended]] = field(default_factory=list)
    """Decisions that were sent, and their answers."""
    before: list[Ended] = field(default_factory=list)
    """Decisions about another transaction with the same key that were sent before this half."""
    other: Half | None = None
    """That transaction's half."""

    def promised(self) -> set[Resolution]:
        """Decisions answered with SUCCESS."""
        return {resolution for resolution, ended in self.asked if ended.result is DONE}

    @property
    def known(self) -> bool:
        return self.half.stored is not None and self.half.error is None


class Transactions(RuleBasedStateMachine):
    """Producers that send, decide and repeat themselves; a disk that stalls and fills; a process that dies."""

    sent = Bundle("sent")

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="gantry-model-"))
        self.lab = Lab(self.root / "store", check_max=2)
        self.session: LabClient = self.lab.online()
        self.all: list[Sent] = []

    def teardown(self) -> None:
        self.lab.crash()
        shutil.rmtree(self.root)

    @rule(target=sent)
    def send(self) -> Sent:
        sent = Sent(self.lab.half())
        self.all.append(sent)
        return sent

    @rule(target=sent, first=sent)
    def send_the_same_key_again(self, first: Sent) -> Sent:
        before = [ended for _, ended in first.asked]
        sent = Sent(self.lab.half(key=first.half.key), before=before, other=first.half)
        self.all.append(sent)
        return sent

    @rule(sent=sent, resolution=DECISIONS, check=st.booleans())
    def decide(self, sent: Sent, resolution: Resolution, check: bool) -> None:
        if sent.known:
            sent.asked.append((resolution, self.lab.end(self.session, sent.half, resolution, check=check)))

    @rule(sent=sent)
    def answer_unknown(self, sent: Sent) -> None:
        if sent.known:
            self.lab.end(self.session, sent.half, Resolution.UNKNOWN, check=True, one_way=True)

    @rule(seconds=st.sampled_from([0.5, 6, 31, 61]))
    def wait(self, seconds: float) -> None:
        self.lab.clock.advance(seconds)

    @rule()
    def stall_the_disk(self) -> None:
        if self.lab.disk.held is None:
            self.lab.disk.hold()

    @rule()
    def let_the_disk_go_on(self) -> None:
        self.lab.disk.release()

    @rule(full=st.booleans())
    def fill_or_clear_the_disk(self, full: bool) -> None:
        self.lab.disk.full = full

    @rule()
    def come_and_go(self) -> None:
        self.lab.offline(self.session)
        self.lab.clock.advance(3)
        self.session = self.lab.online()

    @rule(kept=st.floats(0, 1), orderly=st.booleans(), with_file=st.booleans())
    def die_and_start_again(self, kept: float, orderly: bool, with_file: bool) -> None:
        self.lab.disk.full = False
        if orderly:
            self.lab.disk.release()
            self.lab.coordinator.close()
        self._die(kept, with_file)

    @rule(sent=sent, resolution=DECISIONS, kept=st.floats(0, 1), with_file=st.booleans(), whole=st.booleans())
    def die_while_deciding(self, sent: Sent, resolution: Resolution, kept: float, with_file: bool, whole: bool) -> None:
        """The client without an answer repeats its decision after the restart."""
        self.lab.disk.full = False
        self.stall_the_disk()
        self.decide(sent, resolution, False)
        self._die(kept, with_file, whole_records=whole)
        self.decide(sent, resolution, False)

    def _die(self, kept: float, with_file: bool, *, whole_records: bool = False) -> None:
        self.lab.power_cut(kept, whole_records=whole_records)
        if not with_file:
            (self.root / "store" / "gantry" / "decisions").unlink(missing_ok=True)
        self.lab.producers.groups.clear()
        self.lab.open()
        self.session = self.lab.online()
        halves = self.lab.store.queue_range(HALF, 0)[1]
        for sent in self.all:
            assert not sent.known or sent.half.place[0] < halves, "an answered half is lost"

    @invariant()
    def what_was_promised_holds(self) -> None:
        delivered = [message.prepared_transaction_offset for message in self.lab.delivered()]
        assert len(delivered) == len(set(delivered)), "one half, one final message"
        by_place: dict[tuple[int, int], list[Sent]] = {}
        for sent in self.all:
            if sent.known:
                by_place.setdefault(sent.half.place, []).append(sent)
        for place, sharers in by_place.items():
            promised = set().union(*(sent.promised() for sent in sharers))
            assert len(promised) <= 1, "first decision wins"
            if promised == {Resolution.COMMIT}:
                assert place[1] in delivered, "an acknowledged commit is delivered"
            if promised == {Resolution.ROLLBACK}:
                assert place[1] not in delivered, "a rolled-back message is not delivered"
            if not any(resolution is Resolution.COMMIT for sent in sharers for resolution, _ in sent.asked):
                assert place[1] not in delivered, "nothing is delivered that nobody committed"

    @invariant()
    def nothing_is_swallowed(self) -> None:
        for sent in self.all:
            if sent.known and sent.other is not None and any(ended.result is DONE for ended in sent.before):
                assert sent.half.place != sent.other.place, "after a decision the key begins a new transaction"

    @invariant()
    def every_answered_half_is_open_or_decided(self) -> None:
        table = self.lab.coordinator.table
        for sent in self.all:
            if sent.known:
                queue_offset = sent.half.place[0]
                assert (queue_offset in table) != bool(table.decisions[queue_offset])


TestTransactions = pytest.mark.slow(Transactions.TestCase)
TestTransactions.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
