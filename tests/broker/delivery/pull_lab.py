"""Pulls from a real store, without a network, with a clock that the test sets."""

from __future__ import annotations

from pathlib import Path

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.delivery.pull import Pulls
from gantrymq.broker.delivery.pull_checks import PullChecks
from gantrymq.broker.delivery.pull_values import InlineSubscription, PullRequest, PullResult
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.refusal import Refused
from gantrymq.broker.registries.clients import ConsumerGroups
from gantrymq.broker.registries.filters import ConsumerFilters
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.topics import Topics
from gantrymq.protocol.stored_message import scan
from gantrymq.store.config import FlushDiskType, StoreConfig
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import NewRecord
from tests.broker.transaction_lab import HOST, LabClock, LabDisk
from tests.support.clients import PlainClient

TOPIC, GROUP = "Orders", "CG_lab"
EVERYTHING = InlineSubscription("*", "TAG")


class PullLab:
    """A store, the registries a pull looks into, and the pulls."""

    def __init__(self, root: Path, **config: object) -> None:
        self.config = LiveConfig(BrokerConfig.of(store_path_root_dir=str(root), **config))
        self.clock = LabClock()
        disk = LabDisk(self.clock)
        settings = StoreConfig(
            root=str(root), flush_disk_type=FlushDiskType.ASYNC_FLUSH, mapped_file_size_commit_log=4 << 20,
            mapped_file_size_consume_queue=20_000, max_index_num=2_000, max_hash_slot_num=500,
        )  # fmt: skip
        self.store = MessageStore.open(settings, disk, self.clock, HOST)
        disk.make_dirs(self.store.path("config"))
        self.topics = Topics(self.config, disk, self.clock, self.store.path("config/topics.json"))
        self.topics.ensure(TOPIC, 2)
        self.groups = Groups(disk, self.clock, self.store.path("config/groups.json"), auto_create=True)
        self.offsets = ConsumerOffsets(disk, self.store.path("config/offsets.json"), self.clock)
        self.consumers = ConsumerGroups()
        self.filters = ConsumerFilters(disk, self.clock, self.store.path("config/filters.json"))
        self.counters = MessageCounters()
        checks = PullChecks(self.config, self.topics, self.groups, self.consumers, self.filters)
        self.pulls = Pulls(self.config, self.store, checks, self.offsets, self.clock, self.counters, None)
        self.client = PlainClient()
        self.done: list[PullResult | Refused] = []
        """The outcomes of pulls that were held."""

    def send(self, *bodies: str, tag: str = "A", queue_id: int = 0) -> None:
        for body in bodies:
            properties = f"TAGS\x01{tag}\x02"
            self.store.append([NewRecord(TOPIC, queue_id, body.encode(), properties, self.clock.wall, HOST)])
        self.clock.run()

    def pull(self, offset: int = 0, client: PlainClient | None = None, **fields: object) -> PullResult | None:
        values: dict[str, object] = {
            "group": GROUP, "topic": TOPIC, "queue_id": 0, "offset": offset, "count": 32, "max_bytes": 0,
            "subscription": EVERYTHING,
        }  # fmt: skip
        request = PullRequest(**{**values, **fields})  # type: ignore[arg-type]
        return self.pulls.pull(client or self.client, request, self.done.append)

    def bodies(self, outcome: PullResult | Refused | None) -> list[str]:
        assert isinstance(outcome, PullResult)
        return [message.body.decode() for message in scan(outcome.records)]
