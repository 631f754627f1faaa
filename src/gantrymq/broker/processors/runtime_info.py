"""GET_BROKER_RUNTIME_INFO (28): figures of a broker as texts. Source: wire-protocol.md 3.5."""

from __future__ import annotations

from typing import Final

from gantrymq import __version__
from gantrymq.broker.config import BrokerConfig
from gantrymq.protocol.bodies.topics import KVTable
from gantrymq.protocol.codes import VERSION, ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.remoting.server import Session
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk
from gantrymq.store.message_store import MessageStore

_NO_RATE: Final = "0.0 0.0 0.0"
"""Over ten seconds, one minute and ten minutes; rates are measured by the metrics of a later version."""


class RuntimeInfoProcessor:
    """What the tools show of a broker."""

    def __init__(self, config: BrokerConfig, store: MessageStore, disk: Disk, clock: Clock) -> None:
        self._config = config
        self._store = store
        self._disk = disk
        self._clock = clock
        self._boot_ms = clock.wall_ms()

    def runtime_info(self, session: Session, command: Command) -> bytes:
        usage = self._disk.usage(self._store.path(""))
        ratio = str(round(usage.used / usage.total, 4)) if usage.total else "0.0"
        now = self._clock.wall_ms()
        table = {
            "brokerVersionDesc": f"GantryMQ {__version__}",
            "brokerVersion": str(VERSION),
            "brokerActive": "true",
            "bootTimestamp": str(self._boot_ms),
            "runtime": f"[ {(now - self._boot_ms) // 1000} seconds ]",
            "startAcceptSendRequestTimeStamp": "0",
            "earliestMessageTimeStamp": str(self._boot_ms),
            "putTps": _NO_RATE,
            "getFoundTps": _NO_RATE,
            "getMissTps": _NO_RATE,
            "getTotalTps": _NO_RATE,
            "getTransferredTps": _NO_RATE,
            "getTransferedTps": _NO_RATE,
            "commitLogDiskRatio": ratio,
            "consumeQueueDiskRatio": ratio,
            "commitLogMinOffset": str(self._store.min_log_offset),
            "commitLogMaxOffset": str(self._store.max_log_offset),
            "commitLogDirCapacity": f"Total : {usage.total} bytes, Free : {usage.free} bytes.",
            "dispatchBehindBytes": "0",
            "pageCacheLockTimeMills": "0",
            "sendThreadPoolQueueSize": "0",
            "sendThreadPoolQueueCapacity": "10000",
            "sendThreadPoolQueueHeadWaitTimeMills": "0",
            "pullThreadPoolQueueSize": "0",
            "pullThreadPoolQueueCapacity": "100000",
            "pullThreadPoolQueueHeadWaitTimeMills": "0",
        }
        return encode_response(command, ResponseCode.SUCCESS, body=KVTable(table=table).encode())
