from __future__ import annotations

import pytest

from gantrymq.message.arguments import shown, whole_number


class Index:
    def __index__(self) -> int:
        return 7


class Fails:
    def __index__(self) -> int:
        raise ValueError("no")

    def __repr__(self) -> str:
        raise ValueError("no")


@pytest.mark.parametrize(("value", "number"), [(0, 0), (-3, -3), (10**40, 10**40), (Index(), 7)])
def test_whole_numbers(value: object, number: int) -> None:
    assert whole_number(value) == number


@pytest.mark.parametrize("value", [True, False, None, 1.0, float("nan"), "1", b"1", [1], Fails(), object()])
def test_what_is_no_whole_number(value: object) -> None:
    assert whole_number(value) is None


def test_everything_can_be_shown_in_a_line() -> None:
    strange = [None, 10**30, 10**5000, "x" * 10_000, "a\nb", list(range(10_000)), {1: [2, [3]]}, Fails(), object()]
    for value in strange:
        assert 0 < len(shown(value)) < 200 and "\n" not in shown(value)
