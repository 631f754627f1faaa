"""What happened to a transaction, event by event. Our brokers explain it; of Apache's brokers the records are read."""

from __future__ import annotations

from typing import Any

import msgspec

from gantrymq.admin.asking import Asking
from gantrymq.admin.transactions import Transactions
from gantrymq.errors import RemoteProtocolError
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.tools import ExplainTransaction
from gantrymq.transactions.history.explanation import explanation

TIMEOUT_MS = 30_000
"""A broker may have to look through many op messages."""


class Explanations:
    """Explains transactions, wherever they are."""

    def __init__(self, asking: Asking, transactions: Transactions) -> None:
        self._asking = asking
        self._transactions = transactions

    async def of(self, transaction_id: str, broker: str | None = None) -> list[dict[str, Any]]:
        """The transactions with this id on all brokers or on one; see ``transactions.explanation`` for the fields."""
        found: list[dict[str, Any]] = []
        for name, address in (await self._asking.chosen(broker)).items():
            explained = await self._by_broker(address, transaction_id)
            found += await self._by_records(name, address, transaction_id) if explained is None else explained
        return found

    async def _by_broker(self, address: str, transaction_id: str) -> list[dict[str, Any]] | None:
        """What the broker says; None when it does not know the question."""
        answer = await self._asking.ask(
            address, RequestCode.EXPLAIN_TRANSACTION, ExplainTransaction(transaction_id=transaction_id),
            what="explanation of a transaction", timeout_ms=TIMEOUT_MS,
            accept=(ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
        )  # fmt: skip
        if answer.code != ResponseCode.SUCCESS:
            return None
        try:
            return msgspec.json.decode(answer.body, type=list[dict[str, Any]])
        except msgspec.MsgspecError as error:
            raise RemoteProtocolError(f"{address} did not explain the transaction in a JSON list: {error}") from error

    async def _by_records(self, name: str, address: str, transaction_id: str) -> list[dict[str, Any]]:
        explained = []
        for place in await self._transactions.find(transaction_id, name):
            around = await self._transactions.surroundings(address, {place.transaction.group})
            explained.append(explanation(place.transaction, name, address, around))
        return explained
