"""The tables of the four databases, and the statements of the four services: the same ones for every way."""

from __future__ import annotations

from typing import Any, Final

from benchmarks.consistency.postgres import Postgres
from benchmarks.consistency.setting import CUSTOMERS, DOWNSTREAM, ORDERS, SERVICES

ORDER_TABLES: Final = """
CREATE TABLE orders (
    id BIGINT PRIMARY KEY, customer INTEGER NOT NULL, amount INTEGER NOT NULL,
    state TEXT NOT NULL, paid_at TIMESTAMPTZ
)"""
"""``paid_at``: when the row was updated, and so locked."""
SERVICE_TABLES: Final = f"""
CREATE TABLE ledger (order_id BIGINT NOT NULL, customer INTEGER NOT NULL, amount INTEGER NOT NULL);
CREATE INDEX ON ledger (order_id);
CREATE TABLE totals (customer INTEGER PRIMARY KEY, amount BIGINT NOT NULL);
INSERT INTO totals SELECT customer, 0 FROM generate_series(0, {CUSTOMERS - 1}) AS customer;
CREATE TABLE inbox (order_id BIGINT PRIMARY KEY, delivered_at TIMESTAMPTZ NOT NULL);
CREATE TABLE again (order_id BIGINT NOT NULL)
"""
"""``ledger`` and ``totals`` are the effect of an order: a parcel, points, a cleared cart. Nothing in them is unique, so
that an effect that happens twice is seen. ``inbox`` is what makes a consumer's effect happen once; ``again`` counts the
deliveries that it kept away."""

PAY: Final = "UPDATE orders SET state = 'paid', paid_at = clock_timestamp() WHERE id = %(order)s AND state = 'open'"
APPLY: Final = "INSERT INTO ledger (order_id, customer, amount) VALUES (%(order)s, %(customer)s, %(amount)s)"
ADD_UP: Final = "UPDATE totals SET amount = amount + %(amount)s WHERE customer = %(customer)s"
CONSUME: Final = """
WITH came AS (
    SELECT * FROM unnest(%(order)s::bigint[], %(customer)s::int[], %(amount)s::int[]) AS t (order_id, customer, amount)
), fresh AS (
    INSERT INTO inbox SELECT order_id, to_timestamp(%(at)s) FROM came ON CONFLICT DO NOTHING RETURNING order_id
), doubled AS (
    INSERT INTO again SELECT order_id FROM came WHERE order_id NOT IN (SELECT order_id FROM fresh)
), done AS (
    INSERT INTO ledger SELECT order_id, customer, amount FROM came NATURAL JOIN fresh RETURNING customer, amount
), sums AS (
    SELECT customer, sum(amount) AS amount FROM done GROUP BY customer
)
UPDATE totals SET amount = totals.amount + sums.amount FROM sums WHERE totals.customer = sums.customer
"""
"""A consumer's whole effect for a batch of messages in one statement, and so in one transaction."""


def create(postgres: Postgres) -> None:
    """The four databases, empty."""
    with postgres.connect("postgres") as connection:
        for service in SERVICES:
            connection.execute(f"CREATE DATABASE {service}".encode())
    for service in SERVICES:
        with postgres.connect(service) as connection:
            connection.execute((ORDER_TABLES if service == ORDERS else SERVICE_TABLES).encode())


def open_orders(postgres: Postgres, first: int, count: int) -> None:
    """Orders that can be paid, with these numbers. What was done before is written to the tables' files, so that no
    turn pays for the checkpoint of another one."""
    with postgres.connect(ORDERS) as connection:
        connection.execute(
            "INSERT INTO orders SELECT n, n %% %s, 1 + n %% 97, 'open' FROM generate_series(%s::bigint, %s) AS n",
            (CUSTOMERS, first, first + count - 1),
        )
        connection.execute("CHECKPOINT")


def parameters(order: Any) -> dict[str, int]:
    return {"order": order.number, "customer": order.customer, "amount": order.amount}


__all__ = ["ADD_UP", "APPLY", "CONSUME", "DOWNSTREAM", "PAY", "create", "open_orders", "parameters"]
