"""The table of `gantry pipeline lifecycle`."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gantrymq.cli.lifecycle_text import NOTHING, WIDTH, lines
from gantrymq.spark.pipelines.ready_made.lifecycle import Window

COUNTS = st.lists(st.integers(0, 10**9), min_size=4, max_size=4)
TIMES = st.lists(st.one_of(st.none(), st.floats(0, 3.6e8)), min_size=4, max_size=4)


def window(topic: str, begin_ms: int, counts: list[int], times: list[float | None]) -> Window:
    all_of_them = max(1, sum(counts))
    states = dict(zip(("committed", "rolled_back", "parked", "open"), counts, strict=True))
    taken = dict(zip(("p50_ms", "p95_ms", "p99_ms", "max_ms"), times, strict=True))
    return Window(topic=topic, begin_ms=begin_ms, transactions=all_of_them, checked=counts[0], **states, **taken)


WINDOWS = st.lists(
    st.builds(window, st.sampled_from(["orders", "payments"]), st.integers(0, 4 * 10**12), COUNTS, TIMES), max_size=5
)


def test_what_a_person_reads() -> None:
    rest = {"p50_ms": 3.21, "p95_ms": 48.4, "p99_ms": 2_140.0, "max_ms": 5_000.0}
    one = Window(
        topic="payments", begin_ms=1_769_860_800_000, transactions=8, committed=5, rolled_back=1, parked=1, open=1,
        checked=2, **rest,
    )  # fmt: skip
    two = Window(
        topic="payments", begin_ms=1_769_864_400_000, transactions=2, committed=0, rolled_back=0, parked=0, open=2,
        checked=0, **dict.fromkeys(rest),
    )  # fmt: skip
    assert list(lines([one, two], 3_600_000)) == [
        "payments: 10 transactions",
        "                              rolled",
        "begin         all  committed    back  parked  open  checked    p50   p95   p99",
        "01-31 12:00     8          5       1       1     1        2  3.2ms  48ms  2.1s",
        "01-31 13:00     2          0       0       0     2        0      -     -     -",
        "of all       100%        50%     10%     10%   30%      20%",
        "",
        "begin: in UTC; p50, p95, p99: time from the half message to its decision",
    ]
    assert list(lines([], 1)) == [NOTHING]


@settings(max_examples=30)
@given(WINDOWS, st.sampled_from([1_000, 60_000, 86_400_000]))
def test_a_table_fits_into_80_columns(windows: list[Window], window_ms: int) -> None:
    windows.sort(key=lambda one: (one.topic, one.begin_ms))
    assert all(len(line) <= WIDTH for line in lines(windows, window_ms))
