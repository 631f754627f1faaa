"""What all processes of the benchmark know of each other: addresses, databases, names. Values only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

ORDERS: Final = "orders"
DOWNSTREAM: Final = ("logistics", "points", "cart")
SERVICES: Final = (ORDERS, *DOWNSTREAM)
"""Each is the name of a service and of its database."""
CUSTOMERS: Final = 1_000
TOPIC: Final = "orders-paid"
OUTBOX: Final = "outbox"
OUTBOX_QUEUE: Final = "orders_paid"

LOCAL, PLAIN, OUTBOX_WAY, OURS, TWO_PHASE = "local", "plain", "outbox", "transaction", "two-phase"
OURS_AHEAD: Final = "transaction-ahead"
OURS_ROW, OURS_ALWAYS = "transaction-row", "transaction-always"
WAYS: Final = (TWO_PHASE, PLAIN, OUTBOX_WAY, OURS, OURS_AHEAD, OURS_ROW, OURS_ALWAYS)
TITLES: Final = {
    LOCAL: "local commit only",
    TWO_PHASE: "two-phase commit",
    PLAIN: "commit, then plain message",
    OUTBOX_WAY: "outbox with relay",
    OURS: "transaction message",
    OURS_AHEAD: "transaction message, brokers not awaited",
    OURS_ROW: "transaction message, else a row",
    OURS_ALWAYS: "always a row",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """Where everything is. Given to each process as JSON."""

    postgres_port: int
    name_server: str
    broker: str
    directory: str

    def url(self, database: str, driver: str = "psycopg") -> str:
        """Of one of the four databases, as SQLAlchemy wants it."""
        return f"postgresql+{driver}://postgres@localhost:{self.postgres_port}/{database}"

    def conninfo(self, database: str) -> str:
        """The same for psycopg itself."""
        return f"host=localhost port={self.postgres_port} user=postgres dbname={database}"

    @property
    def decisions(self) -> Path:
        """The log of the coordinator of two-phase commit."""
        return Path(self.directory) / "decisions.log"

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Order:
    """What the client says when it pays: everything else follows from the number."""

    number: int

    @property
    def customer(self) -> int:
        return self.number % CUSTOMERS

    @property
    def amount(self) -> int:
        return 1 + self.number % 97

    def body(self) -> str:
        return json.dumps({"order": self.number, "customer": self.customer, "amount": self.amount})
