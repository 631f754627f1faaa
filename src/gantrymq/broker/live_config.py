"""The configuration of a running broker, which an operator may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gantrymq.broker.config import BrokerConfig


class LiveConfig:
    """The configuration as it is now.

    A part of the broker that is to notice changes keeps this, and reads the section when it needs a value; it never
    keeps a section. Who has made something of a value puts itself on ``changed``.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self.changed: Final[list[Callable[[], None]]] = []
        """Called after every change, in this order."""
        self._take(config)

    def _take(self, config: BrokerConfig) -> None:
        self.current = config
        """Everything."""
        self.identity = config.identity
        self.network = config.network
        self.replication = config.replication
        self.topics = config.topics
        self.groups = config.groups
        self.pull = config.pull
        self.delay = config.delay
        self.pop = config.pop
        self.transactions = config.transactions
        self.store = config.store
        self.retention = config.retention
        self.access = config.access

    def replace(self, config: BrokerConfig) -> None:
        """``config`` counts from now on."""
        self._take(config)
        for tell in self.changed:
            tell()
