"""The keyword arguments of all Transactions objects, and how they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Required

from gantrymq.client.config import TransactionProducerSettings
from gantrymq.sql.transaction.local import TransactionsConfig


class TransactionsSettings(TransactionProducerSettings, total=False):
    """See ``TransactionsConfig`` of ``gantrymq.sql.transaction.local`` and TransactionProducerConfig."""

    name_servers: Required[str | Iterable[str]]
    longest_transaction: float
    claim_timeout: float
    keep_rows: float | None
    wait_for_brokers: bool
    table: str
    inbox_table: str


_OURS = frozenset(field.name for field in fields(TransactionsConfig))


def read_settings(group: str, given: Mapping[str, Any]) -> tuple[TransactionsConfig, dict[str, Any]]:
    """Our settings, and those for the producer, which are checked when it is made."""
    ours = {name: value for name, value in given.items() if name in _OURS}
    return TransactionsConfig(group=group, **ours), {name: value for name, value in given.items() if name not in _OURS}
