"""The relay of a program with threads: it lives on the event loop of the blocking clients."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from gantrymq.client import sync
from gantrymq.errors import GantryError
from gantrymq.sql.rules.steps import Away
from gantrymq.sql.transaction.local import Local
from gantrymq.sql.transaction.relay import STOP_S, Relay
from gantrymq.sql.transaction.threaded_database import ThreadedDatabase


class ThreadRelay:
    """A relay that runs, and its database."""

    def __init__(self, local: Local, producer: sync.TransactionProducer) -> None:
        self._database = ThreadedDatabase(local.database)
        self._portal = producer._open_portal()
        self.relay: Final[Relay] = self._portal.call(self._start, local, producer)

    async def _start(self, local: Local, producer: sync.TransactionProducer) -> Relay:
        relay = Relay(local, self._database, producer._client, rarely=local.settings.away is Away.REFUSE)
        relay.start()
        return relay

    def stop(self) -> None:
        """See ``Relay.stop``."""
        with suppress(GantryError):  # all clients are closed
            self._portal.call(self.relay.stop, STOP_S)
        self._database.close()
