"""Puts the parts of POP consumption together: the broker starts, uses and stops them here."""

from __future__ import annotations

from functools import partial
from typing import Final

from gantrymq.broker.client import Client
from gantrymq.broker.delivery.delivered import Delivered
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.message_rights import MessageRights
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.outside import Outside
from gantrymq.broker.pop.acks import PopAcks
from gantrymq.broker.pop.assignments import Assignments, RouteSource
from gantrymq.broker.pop.consumption import PopConsumption
from gantrymq.broker.pop.lite.expiry import LiteExpiry
from gantrymq.broker.pop.lite.kept import FILE_NAME as LITE_FILE
from gantrymq.broker.pop.lite.kept import KeptSubscriptions
from gantrymq.broker.pop.lite.pops import LitePops
from gantrymq.broker.pop.lite.starts import LiteStarts
from gantrymq.broker.pop.lite.subscriptions import LiteSubscriptions
from gantrymq.broker.pop.queues import PopChecks
from gantrymq.broker.pop.requests import PopRequests
from gantrymq.broker.pop.waiting import Waiting
from gantrymq.broker.registries.registries import Registries
from gantrymq.broker.registries.request_modes import RequestModes
from gantrymq.message.lite_topics import is_lite_queue
from gantrymq.message.pop import RequestMode
from gantrymq.store.message_store import MessageStore

MODES_FILE: Final = "config/messageRequestMode.json"


class Popping:
    """Built when the store is open; raises ConfigError when one of its files cannot be read."""

    def __init__(
        self,
        config: LiveConfig,
        store: MessageStore,
        registries: Registries,
        routes: RouteSource,
        outside: Outside,
        host: bytes,
        counters: MessageCounters,
        rights: MessageRights | None,
        delivered: Delivered | None = None,
    ) -> None:
        """``host``: the packed address of this broker, which records bear. ``rights``: None: it has no users.
        ``delivered``: what came back, and is not noted as acknowledged; None: nothing is known of that."""
        topics, groups, offsets = registries.topics, registries.groups, registries.offsets
        clock, disk = outside.clock, outside.disk
        checks = PopChecks(config, topics, groups)
        modes = RequestModes(
            disk, store.path(MODES_FILE), RequestMode(config.pop.default_message_request_mode),
            config.pop.default_pop_share_queue_num,
        )  # fmt: skip
        self.consumption = PopConsumption(
            config, store, topics, groups, offsets, clock, outside.rng, disk, host, counters, delivered
        )
        waiting = Waiting(clock, config.pop.pop_polling_size, config.pop.max_pop_polling_size)
        store.arrivals.append(waiting.arrived_run)
        subscriptions = LiteSubscriptions()
        self._kept_lite = KeptSubscriptions(disk, store.path(LITE_FILE), subscriptions)
        self.lite = LitePops(
            checks, groups, self.consumption, LiteStarts(store, offsets),
            Waiting(clock, config.pop.pop_polling_size, config.pop.max_pop_polling_size), clock, counters,
            store.arrivals, subscriptions,
        )  # fmt: skip
        self.lite_expiry = LiteExpiry(store, topics, offsets, self.lite, clock)
        self.consumption.deliveries.opened = partial(_opened, waiting, self.lite)
        self.requests = PopRequests(config, checks, self.consumption, waiting, clock, counters, rights)
        self.acks = PopAcks(checks, self.consumption.deliveries, store, clock, config.identity.broker_name)
        self.dead_letters = self.consumption.dead_letters
        self.assignments = Assignments(config, topics, groups, registries.consumers, modes, routes, clock)
        self._offsets = offsets
        self.consumption.rebuild()
        self.lite.resume()
        topics.changed.append(lambda changed: None if changed else self.consumption.drop_deleted())

    def start(self) -> None:
        """Deliver the messages again that are due."""
        self.consumption.start()

    def save_offsets(self) -> None:
        """Write the consumer offsets, and what belongs to them; raises StoreError."""
        self.consumption.save_later()
        self._kept_lite.save_later()
        self._offsets.save_later()

    def client_gone(self, client: Client) -> None:
        """A connection ended."""
        self.requests.waiting.client_gone(client)
        self.lite.waiting.client_gone(client)

    def release_all(self) -> None:
        """Answer all waiting requests now: other parts answer the next ones."""
        self.requests.waiting.release_all()
        self.lite.waiting.release_all()

    async def stop_answering(self) -> None:
        """Drop all waiting requests; their connections are about to be closed."""
        self.requests.waiting.close()
        self.lite.waiting.close()
        await self.assignments.close()

    async def stop(self) -> None:
        """Bring nothing back any more, and return when what is under way is safe or has failed."""
        await self.consumption.stop()

    def close(self) -> None:
        """To be called before the consumer offsets are saved for the last time. Raises StoreError."""
        self.consumption.close()
        self._kept_lite.save()


def _opened(waiting: Waiting, lite: LitePops, topic: str, group: str) -> None:
    """Nothing of an orderly queue is in flight any more."""
    if is_lite_queue(topic):
        lite.opened(topic, group)
    else:
        waiting.wake(topic, group)
