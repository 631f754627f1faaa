"""What a replica takes from its primary beside the log: topics, groups, offsets, how far delayed messages are, request
modes; of one of ours also orderly pops, users and policies.

It asks one of ours for what has changed (COPY_TABLES), and an Apache broker with the requests of Apache's slaves. It
takes a table when its version has changed. A table is replaced at once: at no moment a topic is missing. Source:
SlaveSynchronize; reference "replication", section 3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from gantrymq.access.file import decoded
from gantrymq.access.opening import Access
from gantrymq.broker.delivery.delay import DELAYS_FILE
from gantrymq.broker.operations.table_copies import DELAYS, GROUPS, MODES, OFFSETS, ORDER, TOPICS, USERS
from gantrymq.broker.pop.assembly import MODES_FILE
from gantrymq.broker.pop.consumption import ORDER_FILE
from gantrymq.broker.registries.json_file import write_json
from gantrymq.broker.registries.registries import Registries
from gantrymq.errors import GantryError, RemoteProtocolError, RequestRejected
from gantrymq.protocol import lenient_json
from gantrymq.protocol.bodies.copied_tables import CopiedTables, KnownTables
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.files.groups import GroupTable
from gantrymq.protocol.files.topics import TopicTable
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.tasks import TaskGroupOwner
from gantrymq.store.message_store import MessageStore

log = logging.getLogger("gantrymq.broker.replication")

OWN_S: Final = 0.25
"""Between two looks at one of our primaries, which answers with what has changed only."""
TABLES_S: Final = 1.0
"""Between two looks at another one. Apache's slaves look every 3 to 60 s."""
TIMEOUT_MS: Final = 3_000
_APACHE: Final = {
    TOPICS: RequestCode.GET_ALL_TOPIC_CONFIG,
    GROUPS: RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    OFFSETS: RequestCode.GET_ALL_CONSUMER_OFFSET,
    DELAYS: RequestCode.GET_ALL_DELAY_OFFSET,
    MODES: RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
}


class Tables:
    """Takes the tables while it runs."""

    def __init__(
        self, client: RemotingClient, clock: Clock, store: MessageStore, registries: Registries,
        primary: Callable[[], str], access: Access | None,
    ) -> None:  # fmt: skip
        """``primary``: its address for clients; empty: it is not known yet. ``access``: None: this broker has no users,
        and takes none."""
        self._client = client
        self._clock = clock
        self._store = store
        self._registries = registries
        self._primary = primary
        self._tasks = TaskGroupOwner("replica's tables")
        self._access = access
        self._address = ""
        """The primary that was asked last, and"""
        self._is_ours = True
        """whether it knows our own request."""
        self._versions: dict[str, str] = {}
        """By table, what one of our primaries said last."""
        self._taken: dict[RequestCode, Any] = {}
        """What was taken last of an Apache broker: a version, or the content of a small table."""
        self._takes: dict[str, Callable[[bytes], None]] = {
            TOPICS: self._topics,
            GROUPS: lambda body: registries.groups.take(GroupTable.decode(body)),
            OFFSETS: self._offsets,
            DELAYS: partial(self._file, DELAYS_FILE),
            MODES: partial(self._file, MODES_FILE),
            ORDER: partial(self._file, ORDER_FILE),
            USERS: self._users,
        }
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
            await self._clock.sleep(OWN_S if self._is_ours else TABLES_S)

    async def take(self, address: str) -> None:
        """Take what has changed. Raises GantryError or OSError; what was taken before it stays."""
        if address != self._address:
            self._address, self._is_ours = address, True
            self._taken.clear()
            self._versions.clear()
        if self._is_ours:
            body = KnownTables(versions=self._versions).encode()
            answer = await self._client.call(address, RequestCode.COPY_TABLES, body=body, timeout_ms=TIMEOUT_MS)
            self._is_ours = answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        if self._is_ours:
            for name, table in CopiedTables.decode(_body_of(answer, RequestCode.COPY_TABLES, address)).tables.items():
                take = self._takes.get(name)
                if take is not None:
                    take(table.content.encode())
                self._versions[name] = table.version
        else:
            await self._take_as_apache(address)

    async def _take_as_apache(self, address: str) -> None:
        """With the requests of Apache's slaves. Brokers of 4.x have no request modes."""
        for name, code in _APACHE.items():
            answer = await self._client.call(address, code, timeout_ms=TIMEOUT_MS)
            if name == MODES and answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                continue
            body = _body_of(answer, code, address)
            self._if_new(code, _version_of(name, body), partial(self._takes[name], body))

    def _topics(self, body: bytes) -> None:
        table = TopicTable.decode(body)
        self._registries.topics.take(table.topic_config_table, table.data_version)

    def _offsets(self, body: bytes) -> None:
        self._registries.offsets.take(_object(body))

    def _file(self, name: str, body: bytes) -> None:
        """A table that is read when this broker becomes primary."""
        write_json(self._store.file_disk, self._store.path(name), _object(body))

    def _users(self, body: bytes) -> None:
        if self._access is not None and self._access.managed:
            self._access.guard.directory.take(decoded(body, "that the primary sent"))

    def _if_new(self, code: RequestCode, version: Any, take: Callable[[], None]) -> None:
        """Take a table that has another version than the one that was taken last."""
        if self._taken.get(code) != version:
            take()
            self._taken[code] = version


def _body_of(answer: Command, code: RequestCode, address: str) -> bytes:
    if answer.code != ResponseCode.SUCCESS:
        raise RequestRejected(answer.code, answer.remark, request=code.name, address=address)
    return answer.body


def _version_of(name: str, body: bytes) -> Any:
    """Of a table of an Apache broker. Those of 4.x give no version of offsets."""
    if name == TOPICS:
        return TopicTable.decode(body).data_version
    if name == GROUPS:
        return GroupTable.decode(body).data_version
    content = _object(body)
    return content.get("offsetTable") if name == DELAYS else content.get("dataVersion") or content


def _object(body: bytes) -> dict[Any, Any]:
    value = lenient_json.loads(body)
    if not isinstance(value, dict):
        raise RemoteProtocolError("a table is not a JSON object")
    return value
