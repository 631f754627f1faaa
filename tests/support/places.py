"""Small helpers of many store tests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from gantrymq.errors import StoreError
from gantrymq.protocol.stored_message import pack_host
from gantrymq.runtime.clock import Clock, SystemClock
from gantrymq.runtime.disk import Disk, OsDisk
from gantrymq.store.config import StoreConfig
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import NewRecord, Placement

T = TypeVar("T")
HOST = pack_host("127.0.0.1:10911")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def small(root: Path | str, **settings: Any) -> StoreConfig:
    """Settings with files as small as in the recorded stores."""
    sizes = {
        "mapped_file_size_commit_log": 16384,
        "mapped_file_size_consume_queue": 400,
        "max_index_num": 120,
        "max_hash_slot_num": 40,
    }
    return StoreConfig(str(root), **{**sizes, **settings})


def open_store(config: StoreConfig, disk: Disk | None = None, clock: Clock | None = None) -> MessageStore:
    return MessageStore.open(config, disk or OsDisk(), clock or SystemClock(), HOST)


def record(topic: str = "Orders", queue_id: int = 0, body: bytes = b"hello", **parts: Any) -> NewRecord:
    text = parts.pop("properties", "TAGS\x01paid\x02KEYS\x01order-1\x02")
    return NewRecord(topic, queue_id, body, text, 1_700_000_000_000, HOST, **parts)


async def durable(store: MessageStore, placements: list[Placement]) -> StoreError | None:
    """Wait until the messages are safe."""
    answer: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
    store.safety.when_safe(placements[-1].end, answer.set_result)
    return await answer
