"""Keyword arguments for type checkers. Written by ``python -m tools.settings_types`` from the settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Required

from gantrymq.client.keywords import TransactionProducerSettings


class TransactionsSettings(TransactionProducerSettings, total=False):
    """The fields of TransactionsConfig as keyword arguments."""

    name_servers: Required[str | Iterable[str]]
    longest_transaction: float
    claim_timeout: float
    keep_rows: float | None
    wait_for_brokers: bool
    table: str
    inbox_table: str
    when_broker_is_away: str
    row_after_ms: int
    row_limit: int
    outbox_table: str
