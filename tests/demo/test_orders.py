"""The orders of the demo are the same in every process."""

from __future__ import annotations

from gantrymq.demo.orders import (
    AMOUNT_RANGE_CENTS,
    CARD_LIMIT_CENTS,
    EMPTY_CARD_CENTS,
    LOWEST_AMOUNT_CENTS,
    make_order,
    order_id,
)


def test_an_order_follows_from_its_number_and_the_seed() -> None:
    assert make_order(7, 500, 1) == make_order(7, 500, 1)
    assert make_order(7, 500, 1) != make_order(7, 500, 2)
    assert len({make_order(number, 500, 1).order_id for number in range(500)}) == 500
    assert order_id(42) == "o-0000042"


def test_ordinary_cards_pay_any_order_and_empty_ones_none() -> None:
    amounts = {make_order(number, 5_000, 3).amount_cents for number in range(5_000)}
    assert EMPTY_CARD_CENTS < LOWEST_AMOUNT_CENTS <= min(amounts)
    assert max(amounts) < LOWEST_AMOUNT_CENTS + AMOUNT_RANGE_CENTS <= CARD_LIMIT_CENTS
