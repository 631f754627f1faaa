"""Does what ``rules.py`` says: reads the record again and again, writes it, and changes the role of its broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.replication.election.in_sync import InSync, Limits
from gantrymq.broker.replication.election.record import (
    NOBODY,
    Member,
    Record,
    beaten,
    elected,
    first,
    may_stand,
    with_set,
    yielding,
)  # fmt: skip
from gantrymq.broker.replication.election.record_store import NEVER, Held, RecordStore
from gantrymq.broker.replication.election.rules import BEATS, Act, Seen, next_act, stands_early
from gantrymq.errors import RemoteProtocolError, TimedOut, Unreachable
from gantrymq.message.replication import ElectionState
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.tasks import TaskGroupOwner

log = logging.getLogger("gantrymq.broker.replication")

TURNS: Final = 10
"""Looks in a lease."""
COULD_NOT: Final = (Unreachable, TimedOut, RemoteProtocolError)
HELD: Final = 6
"""Of the lease that a primary may wait for the rest of its log to be confirmed, before it hands over."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Of a group."""

    lease_s: float
    """A primary that wrote nothing for so long may be replaced."""
    limits: Limits
    answer_ms: int
    """How long senders wait for the in-sync set."""
    begin_s: float
    """A broker with an empty log begins a group when nobody else has for so long."""
    look_s: float
    """Between two looks of a primary at its in-sync set."""
    elected_by_controller: bool = False
    """See ``Seen``."""


class Led(Protocol):
    """The broker that is led."""

    @property
    def end(self) -> int:
        """Of its log."""

    @property
    def stored(self) -> int:
        """How far the log is safe on its disk."""

    @property
    def is_own(self) -> bool:
        """Whether it has written its log itself, as a primary."""

    @property
    def sees_primary(self) -> bool:
        """Whether name servers know a primary of this name."""

    def knew_a_record(self) -> bool:
        """Whether it has known a record, now or before a start."""

    def remember(self, record: Record) -> None:
        """From now on it has known this record, also behind a start. Raises StoreError or OSError."""

    async def lead(self) -> None:
        """Become primary. Nothing is decided by the log before all of it is confirmed: its end may be here only."""

    async def follow(self) -> None:
        """Become a replica. Nothing is waited for but what is under way."""

    @property
    def is_ready(self) -> bool:
        """Whether it would soon take writes as primary: it has read its log ahead."""

    @property
    def takes_writes(self) -> bool:
        """Whether it is a primary in full."""

    async def hold(self, within_s: float) -> bool:
        """As a primary take no more writes. Whether everything is confirmed within so many seconds."""

    def resume(self) -> None:
        """Take writes again, behind ``hold``."""

    def leave(self, reason: str) -> None:
        """Stop following."""

    def hears(self, within_s: float) -> bool:
        """Whether its primary has said something within so many seconds."""

    @property
    def shut(self) -> str:
        """The HA address that it followed, and at which nobody listens any more; empty: there is none."""


Handed: TypeAlias = Callable[[Refused | None], None]
"""Hears how a handover ended; None: the record names the successor."""


@dataclass(frozen=True, slots=True)
class _Handover:
    """What an operator has asked for."""

    disk: int
    done: Handed


class Leadership:
    """Of one broker."""

    def __init__(self, records: RecordStore, clock: Clock, terms: Terms, led: Led, me: Member) -> None:
        self._records = records
        self._clock = clock
        self._terms = terms
        self._led = led
        self.me: Final = me
        self._tasks = TaskGroupOwner("leadership")
        self._held = Held(None, NEVER)
        now = clock.monotonic()
        self._changed_s = self._beaten_s = self._missed_s = now
        self._readable = False
        self.epoch = 0
        """For which this broker acts as primary; 0: it does not."""
        self.start_of_epoch = 0
        """Where its log ended when it became primary."""
        self.in_sync: InSync | None = None
        """Of a primary."""
        self.problem = ""
        """Why it does not do what it should, for people; empty: it does."""
        self.changed_ms = 0
        """When this broker saw another primary last: ms since 1970; 0: never."""
        self._last_epoch = 0
        self._acted = False
        """Whether this broker acted as primary by the last record that it has read."""
        self._standing = False
        self._handover: _Handover | None = None
        self._woken = asyncio.Event()
        self._told = False
        self._acts: Final = {
            Act.CREATE: self._create, Act.STAND: self._stand, Act.BEAT: self._beat, Act.CHANGE_SET: self._change_set,
            Act.STEP_DOWN: self._step_down,
        }  # fmt: skip
        self._looked_s = now
        """When a primary that does not beat found last that the record is its own."""
        self._led_s: float | None = None
        """Since when it has the role of a primary; None: it has not, or is becoming one."""
        self._stepping = False
        """Whether it is becoming a replica: until it is one, it does nothing else."""

    # ---- for others

    @property
    def record(self) -> Record | None:
        """As it was read last; None: there was none."""
        return self._held.record

    @property
    def least_epoch(self) -> int:
        return 0 if self.record is None else self.record.epoch

    def primary(self) -> Member | None:
        """The broker to follow; None: nobody, at the moment."""
        record = self.record
        if record is None or self._standing or self.epoch or record.primary.disk in (self.me.disk, NOBODY.disk):
            return None
        return record.primary

    def is_current(self) -> bool:
        """Whether this broker may act as primary at this moment, by its own clock."""
        return bool(self.epoch) and (self._unsure_s() <= self._terms.lease_s or self._all_follow())

    def _unsure_s(self) -> float:
        """See ``Seen``. A look that fails, or takes long, counts no more: another one may have been elected since."""
        now = self._clock.monotonic()
        fresh = self._readable and now - self._looked_s <= self._terms.lease_s / BEATS
        return now - (max(self._beaten_s, self._looked_s) if fresh else self._beaten_s)

    def state(self) -> ElectionState:
        """For those who ask."""
        record = self.record
        if record is None:
            return ElectionState(0, "", 0, False, 0, self.problem, self.me.disk)
        return ElectionState(
            record.epoch, record.primary.address, len(record.in_sync), may_stand(record, self.me.disk),
            self.changed_ms, self.problem, self.me.disk,
        )  # fmt: skip

    # ---- life

    def start(self) -> None:
        self._tasks.start("looking", self._run())
        self._tasks.start("guarding", self._guard())

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _run(self) -> None:
        while True:
            try:
                await self._turn()
            except Exception:
                log.exception("this was not expected; the election goes on")
            timer = self._clock.call_later(self._terms.look_s if self.epoch else self._terms.lease_s / TURNS, self.look)
            await self._woken.wait()
            self._woken.clear()
            timer.cancel()

    def look(self) -> None:
        """Something may have happened: do not wait for the next turn."""
        self._woken.set()

    def told(self) -> None:
        """Somebody says that the record has changed. It is read; the word alone counts for nothing."""
        self._told = True
        self.look()

    async def _guard(self) -> None:
        """A store that does not answer keeps no primary in its role for longer than it may be one."""
        while True:
            await self._clock.sleep(self._terms.lease_s / TURNS)
            if self.epoch and not self.is_current():
                await self._step_down()

    async def _turn(self) -> None:
        if self._stepping:
            return
        told, self._told = self._told, False
        if not self._hears_set():
            await self._look_for_others()
        elif told or not self.epoch or self._clock.monotonic() - self._beaten_s > self._terms.lease_s:
            await self._read()  # a primary learns of others when it writes
        if self.in_sync is not None:
            self.in_sync.look()
        if self._handover is not None:
            handover, self._handover = self._handover, None
            await self._hand_over(handover)
        act = next_act(self._seen())
        if act is not Act.WAIT:
            await self._acts[act]()

    def _seen(self) -> Seen:
        now, terms, led = self._clock.monotonic(), self._terms, self._led
        record, in_sync = self.record, self.in_sync
        if self.epoch:
            assert in_sync is not None
            return Seen(
                self.me.disk, record, self._readable, now - self._changed_s, terms.lease_s, epoch=self.epoch,
                unbeaten_s=now - self._beaten_s, unsure_s=self._unsure_s(), all_follow=self._all_follow(),
                hears_set=self._hears_set(), right_set=in_sync.right(),
            )  # fmt: skip
        return Seen(
            self.me.disk, record, self._readable, now - self._changed_s, terms.lease_s,
            hears=led.hears(terms.lease_s),
            shut=record is not None and led.shut == record.primary.ha_address,
            elected_by_controller=terms.elected_by_controller,
            may_begin=record is None and self._may_begin(now - self._missed_s),
        )  # fmt: skip

    def _may_begin(self, missing_s: float) -> bool:
        """Whether this log may become that of the group, where there is no record. Where there was one, it was lost:
        only a primary that has acted until now has everything for certain."""
        if self._led.knew_a_record():
            return self._acted
        if self._led.is_own:
            return True
        # Others may have a log already, and this one may have lost its own.
        return not self._led.end and not self._led.sees_primary and missing_s > self._terms.begin_s

    def _all_follow(self) -> bool:
        return self.in_sync is not None and self.in_sync.all_follow(self._terms.lease_s)

    def _hears_set(self) -> bool:
        """Whether a primary hears enough members. One that has just become it gives them a lease to find it. Where
        Apache's controller elects, nobody stands against a primary that says nothing to the record."""
        if self.in_sync is None or self._led_s is None or self._terms.elected_by_controller:
            return True
        lease_s = self._terms.lease_s
        return self._clock.monotonic() - self._led_s <= lease_s or self.in_sync.hears_enough(lease_s / BEATS)

    async def _look_for_others(self) -> None:
        """As a primary that does not beat."""
        asked_s = self._clock.monotonic()
        await self._read()
        if self._readable and self.record is not None and self._is_mine(self.record):
            self._looked_s = asked_s

    # ---- the record

    async def _read(self) -> None:
        try:
            held = await self._records.read()
        except COULD_NOT as error:
            self._readable = False
            self._note(f"the record of who is primary cannot be read: {error}")
            return
        self._readable = True
        self._note("")
        self._take(held)

    def _take(self, held: Held) -> None:
        """The record is this."""
        before, self._held = self._held, held
        if held.revision != before.revision:
            self._changed_s = self._clock.monotonic()
        record, old = held.record, before.record
        if record is None:
            return
        self._acted = self._is_mine(record)
        self._missed_s, self._last_epoch = self._clock.monotonic(), record.epoch
        if old is None or (old.epoch, old.primary) != (record.epoch, record.primary):
            self._led.remember(record)
        if self._is_mine(record):
            assert self.in_sync is not None
            self.in_sync.take(record.in_sync)
        elif old is None or (old.epoch, old.primary) != (record.epoch, record.primary):
            self.changed_ms = self._clock.wall_ms()
            primary = record.primary
            who = "nobody" if primary == NOBODY else f"{primary.address} (brokerId {primary.broker_id})"
            if not self.epoch:
                self._led.leave(f"{who} is primary of epoch {record.epoch}")
            log.warning("epoch %d: %s is primary", record.epoch, who)

    def _is_mine(self, record: Record) -> bool:
        return bool(self.epoch) and record.epoch == self.epoch and record.primary.disk == self.me.disk

    async def _write(self, record: Record) -> bool:
        """Whether the record is this one now. If that is not known, it is read at the next turn."""
        sent = self._clock.monotonic()
        try:
            held = await self._records.replace(self._held, record)
        except COULD_NOT as error:
            self._note(f"the record of who is primary cannot be written: {error}")
            self._readable = False
            if self.epoch:
                await self._read()
            return False
        self._readable = True
        self._note("")
        if held is None:
            await self._read()
            return False
        self._beaten_s = sent
        self._take(held)
        return True

    def _note(self, problem: str) -> None:
        if bool(problem) != bool(self.problem):  # each node of the store has words of its own
            log.log(logging.ERROR if problem else logging.WARNING, "%s", problem or "the record can be reached again")
        self.problem = problem

    # ---- acts

    async def _create(self) -> None:
        if await self._write(replace(first(self.me), epoch=self._last_epoch + 1)):
            await self._begin()

    async def _stand(self) -> None:
        """Nothing is taken from a primary any more, from before the record is read until it is decided."""
        self._standing, shut = True, self._led.shut
        try:
            self._led.leave("this broker stands for election")
            named = self.record is not None and self.record.yields == self.me.disk
            if not self._led.is_ready and not named:  # one that is ready goes first; the record says whether there is
                await self._clock.sleep(self._terms.lease_s / BEATS)
            await self._read()
            record = self.record
            if not self._readable or record is None or not may_stand(record, self.me.disk):
                return
            early = stands_early(record, self.me.disk, shut=shut == record.primary.ha_address)
            if not early and self._clock.monotonic() - self._changed_s <= self._terms.lease_s:
                return  # the primary has written meanwhile
            log.warning("epoch %d: %s; this broker stands", record.epoch, self._why(record))
            won = await self._write(elected(record, self.me, self._terms.limits.least))
        finally:
            self._standing = False
        if won:
            await self._begin()

    def _why(self, record: Record) -> str:
        if record.primary == NOBODY:
            return "it has no primary"
        if record.primary.disk == self.me.disk:
            return "the record names this broker"
        return f"its primary {record.primary.address} {'hands over' if record.yields else 'is gone'}"

    async def _begin(self) -> None:
        """The record names this broker. It goes on saying that it is alive while it takes its role."""
        record = self.record
        assert record is not None
        led, terms = self._led, self._terms
        self.in_sync = InSync(
            self.me.disk, record.in_sync, terms.limits, terms.answer_ms, self._clock.monotonic, lambda: led.end,
            lambda: led.stored,
        )  # fmt: skip
        self._led_s = None
        self.epoch, self.start_of_epoch = record.epoch, led.end
        self._tasks.start("becoming primary", self._lead())

    async def _lead(self) -> None:
        try:
            await self._led.lead()
            self._led_s = self._clock.monotonic()
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, another broker has to be primary
            failed = error
        log.critical("this broker was elected, and cannot become primary: %s", failed, exc_info=failed)
        await self._step_down()

    async def _step_down(self) -> None:
        if not self.epoch:
            return
        log.error("epoch %d: this broker is primary no more", self.epoch)
        self.epoch, self.in_sync, self._led_s, self._stepping = 0, None, None, True
        try:
            await self._led.follow()
        finally:
            self._stepping = False

    async def _beat(self) -> None:
        assert self.record is not None
        await self._write(beaten(self.record))

    async def _change_set(self) -> None:
        assert self.record is not None and self.in_sync is not None
        wanted = self.in_sync.right()
        self.in_sync.names(wanted)
        before = self.record.in_sync
        if await self._write(with_set(self.record, wanted)):
            log.warning("epoch %d: in-sync set %s, before %s", self.epoch, sorted(wanted), sorted(before))

    # ---- a planned change

    def hand_over(self, disk: int, done: Handed) -> None:
        """Let the member with this disk take the place of this primary, at the next turn. When it is refused, this
        broker goes on as primary. Nothing is lost in any case."""
        if self._handover is not None:
            done(Refused(Refusal.UNAVAILABLE, "another broker is about to take its place already"))
            return
        self._handover = _Handover(disk, done)
        self.look()

    async def _hand_over(self, handover: _Handover) -> None:
        try:
            await self._yield_to(handover.disk)
        except Refused as error:
            handover.done(error)
            return
        handover.done(None)
        await self._step_down()

    async def _yield_to(self, disk: int) -> None:
        """
        1. Nothing is taken any more; what is under way is confirmed by all of the set, and answered.
        2. The record names the successor. From now on only that one stands, for a lease.
        3. This broker becomes a replica. Its port is shut, which wakes the successor.

        Whoever is elected has everything, whenever one of the brokers dies meanwhile: this is an election as any other.
        """
        record, led = self.record, self._led
        if not self.epoch or record is None or not led.takes_writes:
            raise Refused(Refusal.READ_ONLY, "this broker is not the primary, or not yet: ask the primary")
        if disk == self.me.disk:
            raise Refused(Refusal.PARAMETER_INVALID, "this broker is the primary already")
        if not may_stand(record, disk):
            raise Refused(
                Refusal.PARAMETER_INVALID,
                "the broker is not in the in-sync set: it may lack what was acknowledged. Wait until `gantry cluster "
                "replicas` says that it may be elected",
            )
        held_s = self._terms.lease_s / HELD
        try:
            if not await led.hold(held_s):
                raise Refused(
                    Refusal.UNAVAILABLE,
                    f"the in-sync set did not confirm the whole log within {held_s:g} s; try again when it keeps up",
                )
            if not await self._write(yielding(record, disk)):
                raise Refused(
                    Refusal.UNAVAILABLE,
                    f"the record could not be written ({self.problem or 'somebody else has written it'}): repair "
                    "etcd, or try again",
                )
        except BaseException:
            if self.epoch:
                led.resume()
            raise
