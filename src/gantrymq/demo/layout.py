"""The files and directories of one run of the demo."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gantrymq.errors import ConfigError

DEFAULT_NAME = "gantry-demo"
TOPIC = "orders-paid"
BROKER_NAME = "broker-demo"
GROUP = "order-service"

TRANSACTION_TIME_OUT_MS = 2_000
"""Shorter than Apache's default of 6 s, so that check-backs happen during the demo."""
TRANSACTION_CHECK_INTERVAL_MS = 2_000
"""Shorter than Apache's default of 30 s, for the same reason."""

BROKER_CONF = """\
# Settings of the demo's broker; every key is RocketMQ's.
brokerName={broker_name}
brokerIP1=127.0.0.1
storePathRootDir={store}
listenPort={broker_port}
namesrvAddr=127.0.0.1:{name_server_port}
flushDiskType=SYNC_FLUSH
transactionTimeOut={time_out}
transactionCheckInterval={interval}
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one run, below one directory."""

    root: Path

    @property
    def store(self) -> Path:
        return self.root / "store"

    @property
    def broker_conf(self) -> Path:
        return self.root / "broker.conf"

    @property
    def orders_db(self) -> Path:
        return self.root / "orders.db"

    @property
    def tables(self) -> Path:
        return self.root / "tables"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def stop_file(self) -> Path:
        return self.root / "stop-spark"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def reconcile_json(self) -> Path:
        return self.root / "reconcile.json"

    def make(self, name_server_port: int, broker_port: int) -> None:
        """Create the directories and the broker's configuration."""
        self.logs.mkdir(parents=True, exist_ok=True)
        self.broker_conf.write_text(
            BROKER_CONF.format(
                broker_name=BROKER_NAME,
                store=self.store,
                broker_port=broker_port,
                name_server_port=name_server_port,
                time_out=TRANSACTION_TIME_OUT_MS,
                interval=TRANSACTION_CHECK_INTERVAL_MS,
            )
        )


def choose_directory(wanted: Path | None, here: Path) -> Path:
    """The directory of a run, empty or absent: ``wanted``, or the first free ``gantry-demo-N`` below ``here``.

    Raises ConfigError when ``wanted`` is not empty, because two runs must not share their orders.
    """
    if wanted is not None:
        if wanted.exists() and (not wanted.is_dir() or any(wanted.iterdir())):
            raise ConfigError(f"{wanted} is not empty; choose another --dir or remove it first")
        return wanted.resolve()
    number = 1
    while (here / f"{DEFAULT_NAME}-{number}").exists():
        number += 1
    return (here / f"{DEFAULT_NAME}-{number}").resolve()
