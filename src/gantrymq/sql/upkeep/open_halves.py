"""Asks all brokers for the half messages that wait for local transactions of one database."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from gantrymq.admin import Admin
from gantrymq.client.keywords import ClientSettings
from gantrymq.errors import GantryError

log = logging.getLogger("gantrymq.sql")
CLIENT_SETTINGS = frozenset(ClientSettings.__optional_keys__ | ClientSettings.__required_keys__)


async def oldest_open(name_servers: str | Iterable[str], settings: Mapping[str, Any], identity: str) -> str | None:
    """The id of the oldest local transaction with a half message that is open or parked, of whatever group.

    None: there is none, or brokers cannot be asked; that is logged.
    """
    ours = {name: value for name, value in settings.items() if name in CLIENT_SETTINGS or name == "outside"}
    try:
        async with Admin(name_servers, **ours) as admin:
            places = await admin.transactions.undecided()
    except GantryError as error:
        log.warning("old outcome rows are cleaned without asking brokers for open half messages: %s", error)
        return None
    marks = (place.transaction.half.local_transaction.partition(" ") for place in places)
    return min((transaction_id for transaction_id, _, database in marks if database == identity), default=None)
