"""What a replica takes from its primary beside the log: topics, groups, offsets, and how far delayed messages are.

It asks with the requests of Apache's slaves, and takes a table when its version has changed. A table is replaced at
once: at no moment a topic is missing. Source: SlaveSynchronize; reference "replication", section 3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from gantrymq.broker.delivery.delay import DELAYS_FILE
from gantrymq.broker.registries.json_file import write_json
from gantrymq.broker.registries.registries import Registries
from gantrymq.errors import GantryError, RemoteProtocolError, RequestRejected
from gantrymq.protocol import lenient_json
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.files.groups import GroupTable
from gantrymq.protocol.files.topics import TopicTable
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.tasks import TaskGroupOwner
from gantrymq.store.message_store import MessageStore

log = logging.getLogger("gantrymq.broker.replication")

TABLES_S: Final = 1.0
"""Between two looks. Apache's slaves look every 3 to 60 s."""
TIMEOUT_MS: Final = 3_000


class Tables:
    """Takes the tables while it runs."""

    def __init__(
        self, client: RemotingClient, clock: Clock, store: MessageStore, registries: Registries,
        primary: Callable[[], str],
    ) -> None:  # fmt: skip
        """``primary``: its address for clients; empty: it is not known yet."""
        self._client = client
        self._clock = clock
        self._store = store
        self._registries = registries
        self._primary = primary
        self._tasks = TaskGroupOwner("replica's tables")
        self._taken: dict[RequestCode, Any] = {}
        """What was taken last: a version, or the content of a small table."""
        self.problem = ""
        """Why the tables may be old; empty: they are as those of the primary."""

    def start(self) -> None:
        self._tasks.start("taking", self._run())

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _run(self) -> None:
        while True:
            address = self._primary()
            if address:
                try:
                    await self.take(address)
                    self.problem = ""
                except (GantryError, OSError) as error:
                    problem = f"the tables of the primary at {address} cannot be taken: {error}"
                    if problem != self.problem:
                        log.warning("%s", problem)
                    self.problem = problem
            await self._clock.sleep(TABLES_S)

    async def take(self, address: str) -> None:
        """Take what has changed. Raises GantryError or OSError; what was taken before it stays."""
        registries = self._registries
        topics = TopicTable.decode(await self._asked(address, RequestCode.GET_ALL_TOPIC_CONFIG))
        self._if_new(
            RequestCode.GET_ALL_TOPIC_CONFIG, topics.data_version,
            lambda: registries.topics.take(topics.topic_config_table, topics.data_version),
        )  # fmt: skip
        groups = GroupTable.decode(await self._asked(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
        self._if_new(
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groups.data_version, lambda: registries.groups.take(groups)
        )
        offsets = _object(await self._asked(address, RequestCode.GET_ALL_CONSUMER_OFFSET))
        # Apache's 4.x brokers give no version of it.
        version = offsets.get("dataVersion") or offsets
        self._if_new(RequestCode.GET_ALL_CONSUMER_OFFSET, version, lambda: registries.offsets.take(offsets))
        delays = _object(await self._asked(address, RequestCode.GET_ALL_DELAY_OFFSET))
        store = self._store
        self._if_new(
            RequestCode.GET_ALL_DELAY_OFFSET, delays.get("offsetTable"),
            lambda: write_json(store.file_disk, store.path(DELAYS_FILE), delays),
        )  # fmt: skip

    def _if_new(self, code: RequestCode, version: Any, take: Callable[[], None]) -> None:
        """Take a table that has another version than the one that was taken last."""
        if self._taken.get(code) != version:
            take()
            self._taken[code] = version

    async def _asked(self, address: str, code: RequestCode) -> bytes:
        answer = await self._client.call(address, code, timeout_ms=TIMEOUT_MS)
        if answer.code != ResponseCode.SUCCESS:
            raise RequestRejected(answer.code, answer.remark, request=code.name, address=address)
        return answer.body


def _object(body: bytes) -> dict[Any, Any]:
    value = lenient_json.loads(body)
    if not isinstance(value, dict):
        raise RemoteProtocolError("a table is not a JSON object")
    return value
