"""When the in-sync set has a record: whatever happens, what counted is on each member that the record names."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gantrymq.broker.replication.election.in_sync import NEAR_BYTES, InSync, Limits

ME, B, C = 1, 2, 3


class World:
    """A primary, its log and its clock."""

    def __init__(self, in_sync: frozenset[int], least: int = 2) -> None:
        self.now = 100.0
        self.end = self.stored = 0
        limits = Limits(least, away_s=1.0, behind_s=15.0, arrival_s=3.0)
        self.in_sync = InSync(ME, in_sync, limits, 3000, lambda: self.now, lambda: self.end, lambda: self.stored)

    def write(self, size: int) -> None:
        self.end += size
        self.stored = self.end

    @property
    def safe(self) -> int:
        return min(self.in_sync.position, self.stored)


def test_the_slowest_member_counts() -> None:
    world = World(frozenset({ME, B, C}))
    world.write(100)
    world.in_sync.confirm("2", 100)
    assert world.safe == 0
    world.in_sync.confirm("3", 40)
    assert world.safe == 40
    world.in_sync.confirm("3", 100)
    assert world.safe == 100


def test_enough_members_are_heard_or_not() -> None:
    world = World(frozenset({ME, B, C}))
    assert not world.in_sync.hears_enough(1.0)
    world.in_sync.confirm("2", 0)
    assert world.in_sync.hears_enough(1.0)
    world.now += 1.1
    assert not world.in_sync.hears_enough(1.0), "its connection is there, and silent"
    world.in_sync.confirm("4", 0)
    assert not world.in_sync.hears_enough(1.0), "no member"
    world.in_sync.confirm("3", 0)
    assert world.in_sync.hears_enough(1.0)
    world.in_sync.left("3")
    assert not world.in_sync.hears_enough(1.0)
    assert World(frozenset({ME, B}), least=1).in_sync.hears_enough(1.0), "one copy is enough"


def test_a_member_that_is_gone_holds_up_everything_until_the_record_forgets_it() -> None:
    world = World(frozenset({ME, B, C}))
    for name in "23":
        world.in_sync.confirm(name, 0)
    world.write(100)
    world.in_sync.left("3")
    world.in_sync.confirm("2", 100)
    assert world.safe == 0 and world.in_sync.right() == {ME, B, C}
    world.now += 1.1
    assert world.in_sync.right() == {ME, B} and world.safe == 0
    world.in_sync.names(frozenset({ME, B}))
    assert world.safe == 0, "the record may not have been written"
    world.in_sync.take(frozenset({ME, B}))
    assert world.safe == 100


def test_too_few_stay_members_and_nothing_counts_without_them() -> None:
    world = World(frozenset({ME, B}))
    world.in_sync.confirm("2", 0)
    world.in_sync.left("2")
    world.now += 99
    world.write(100)
    world.in_sync.look()
    assert world.in_sync.right() == {ME, B} and not world.in_sync.available and world.safe == 0


def test_a_replica_is_waited_for_before_the_record_names_it() -> None:
    world = World(frozenset({ME}), least=1)
    world.write(NEAR_BYTES * 2)
    assert world.safe == world.end, "nobody else is a member"
    world.in_sync.confirm("2", 0)
    assert world.in_sync.right() == {ME}, "it lacks too much to be waited for"
    world.in_sync.confirm("2", world.end - 10)
    known = world.end
    assert world.safe == known and world.in_sync.right() == {ME}
    world.write(100)
    assert world.safe == known, "from now on it is waited for"
    world.in_sync.confirm("2", known)
    assert world.in_sync.right() == {ME, B}, "it has all that counted without it"
    world.in_sync.names(frozenset({ME, B}))
    world.in_sync.take(frozenset({ME, B}))
    assert world.safe == known
    world.in_sync.confirm("2", world.end)
    assert world.safe == world.end


def test_a_replica_that_does_not_keep_up_leaves() -> None:
    world = World(frozenset({ME, B, C}))
    for _ in range(40):
        world.write(100)
        world.in_sync.confirm("2", world.end)
        world.in_sync.confirm("3", 100)
        world.now += 1
    assert world.in_sync.right() == {ME, B}


def test_strangers_leave_nothing_behind() -> None:
    world = World(frozenset({ME, B}))
    for disk in range(10, 1000):
        world.in_sync.confirm(str(disk), 0)
        world.in_sync.left(str(disk))
    assert len(world.in_sync._copies) == 1 and not world.in_sync._joining


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, NEAR_BYTES)),
        st.tuples(st.sampled_from(["2", "3"]), st.integers(0, 100)),
        st.tuples(st.just("left"), st.sampled_from(["2", "3"])),
        st.tuples(st.just("wait"), st.floats(0.1, 20)),
        st.tuples(st.sampled_from(["write it", "lose it", "forget it"]), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(steps=STEPS, least=st.sampled_from([1, 2]))
def test_what_counted_is_on_each_member_that_the_record_names(steps: list[tuple[str, object]], least: int) -> None:
    world = World(frozenset({ME, B, C}), least)
    had = {"2": 0, "3": 0}
    record = frozenset({ME, B, C})
    safe = 0
    for what, how in steps:
        if what == "write":
            world.write(int(how))  # type: ignore[call-overload]
        elif what in had:
            had[what] = max(had[what], world.end * int(how) // 100)  # type: ignore[call-overload]
            world.in_sync.confirm(what, had[what])
        elif what == "left":
            world.in_sync.left(str(how))
        elif what == "wait":
            world.now += float(how)  # type: ignore[arg-type]
        elif (right := world.in_sync.right()) != world.in_sync.in_sync:
            world.in_sync.names(right)
            record = record if what == "forget it" else right
            if what == "write it":  # else the answer is lost
                world.in_sync.take(right)
        if what == "write it" and record != world.in_sync.in_sync:
            world.in_sync.take(record)  # it was read again
        world.in_sync.look()
        safe = max(safe, world.safe)
        for disk in record - {ME}:
            assert had[str(disk)] >= safe, f"{disk} is a member, and lacks what counted"
