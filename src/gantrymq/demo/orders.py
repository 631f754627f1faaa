"""The orders of the demo. An order is computed from its number and the seed, so every process knows the same orders."""

from __future__ import annotations

from gantrymq.demo.order_database import Order

ORDERS_PER_USER = 5
CARD_LIMIT_CENTS = 50_000
"""The limit of most cards, high enough for any order of the demo."""

EMPTY_CARD_CENTS = 1
"""The limit of a card that will be declined."""

LOWEST_AMOUNT_CENTS = 100
AMOUNT_RANGE_CENTS = 40_000


def order_id(number: int) -> str:
    return f"o-{number:07d}"


def make_order(number: int, orders: int, seed: int) -> Order:
    """The order with this number. Amount and user look arbitrary (a multiplicative hash) and are always the same."""
    mixed = (number * 2_654_435_761 + seed * 40_503) & 0xFFFFFFFF
    users = max(1, orders // ORDERS_PER_USER)
    return Order(order_id(number), f"u-{mixed % users:06d}", LOWEST_AMOUNT_CENTS + mixed % AMOUNT_RANGE_CENTS)
