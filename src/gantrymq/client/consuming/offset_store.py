"""Stores the progress of a consumer: at the brokers for a group, or in a file for a broadcasting consumer.

Source: RemoteBrokerOffsetStore, LocalFileOffsetStore; docs/protocol.md#sharing-queues,
docs/protocol.md#consumer-offsets.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Final, Protocol

import msgspec

from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.errors import GantryError, RemoteProtocolError, RequestRejected, StoreError, Unreachable
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol import lenient_json
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import encode_request
from gantrymq.protocol.headers.consumer import QueryConsumerOffset, UpdateConsumerOffset
from gantrymq.protocol.headers.pull import OffsetAnswer
from gantrymq.runtime.disk import Disk, read_whole, write_durably
from gantrymq.runtime.guesses.directories import expanded

log = logging.getLogger("gantrymq.client")


class OffsetStore(Protocol):
    """Where offsets are stored, by queue: all messages below an offset are consumed."""

    async def load(self, queue: MessageQueue) -> QueueOffset | None:
        """The stored offset; None when there is none. Raises GantryError when it cannot be read now."""

    async def keep(self, queue: MessageQueue, offset: QueueOffset) -> bool:
        """Store an offset; False when that was not possible and must be tried again."""

    async def flush(self) -> None:
        """Make the stored offsets durable."""


class BrokerOffsetStore:
    """The group's offsets, kept by the master of each queue."""

    def __init__(self, endpoint: Endpoint, group: str) -> None:
        self._endpoint = endpoint
        self._group = group

    async def load(self, queue: MessageQueue, *, stored_only: bool = False) -> QueueOffset | None:
        """``stored_only``: return None when the group has no progress. Otherwise brokers answer 0 for a queue without
        progress whose first message is still in memory, so that a new group misses no message of it."""
        address = self._endpoint.routes.readable(queue.broker_name)
        if address is None:
            raise Unreachable(queue.broker_name, "the name servers know no address of that broker")
        header = QueryConsumerOffset(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=False if stored_only else None,
            bname=queue.broker_name,
        )
        answer = await self._endpoint.call(address, RequestCode.QUERY_CONSUMER_OFFSET, header)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise RequestRejected(answer.code, answer.remark, request=f"progress in {queue}", address=address)
        return QueueOffset(answer.header(OffsetAnswer).offset)

    async def keep(self, queue: MessageQueue, offset: QueueOffset) -> bool:
        """Send the offset one-way, as every client does. This waits only when a connection must be made first."""
        if self.keep_now(queue, offset):
            return True
        address = self._endpoint.routes.master(queue.broker_name)
        if address is None:
            return False
        try:
            header = self._update(queue, offset)
            await self._endpoint.call_oneway(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)
        except GantryError as error:
            log.debug("progress of %s not stored: %s", queue, error)
            return False
        return True

    def keep_now(self, queue: MessageQueue, offset: QueueOffset) -> bool:
        """Like ``keep``, but only over an existing connection; False when there is none."""
        address = self._endpoint.routes.master(queue.broker_name)
        channel = self._endpoint.ready(address) if address is not None else None
        if channel is None:
            return False
        frame = encode_request(
            RequestCode.UPDATE_CONSUMER_OFFSET, channel.next_opaque(), self._update(queue, offset), one_way=True
        )
        channel.send(frame)
        return True

    async def confirm(self, queue: MessageQueue, offset: QueueOffset) -> None:
        """Store an offset and wait for the broker's answer. Raises RequestRejected, Unreachable or TimedOut."""
        await self._endpoint.ask(
            lambda: self._endpoint.routes.master(queue.broker_name),
            RequestCode.UPDATE_CONSUMER_OFFSET,
            self._update(queue, offset),
            what=f"progress in {queue}",
            topic=queue.topic,
        )

    def _update(self, queue: MessageQueue, offset: QueueOffset) -> UpdateConsumerOffset:
        return UpdateConsumerOffset(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            bname=queue.broker_name,
        )

    async def flush(self) -> None:
        """Nothing to do: offsets are sent at once."""


FILE_NAME: Final = "offsets.json"
BACKUP: Final = ".bak"


class FileOffsetStore:
    """One member's own offsets, in the file that Java's client would use: ``<dir>/<client id>/<group>/offsets.json``.

    Its form is ``{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5}}``. The version before is kept as
    ``offsets.json.bak``, and read when the file is damaged. A Java consumer can continue from this file, and this
    consumer from Java's.
    """

    def __init__(self, disk: Disk, directory: str, client_id: str, group: str) -> None:
        self._disk = disk
        self._path = os.path.join(str(expanded(Path(directory), "offset_dir")), client_id, group, FILE_NAME)
        self._offsets: dict[MessageQueue, QueueOffset] | None = None
        self._changed = False

    async def load(self, queue: MessageQueue) -> QueueOffset | None:
        return self._table().get(queue)

    async def keep(self, queue: MessageQueue, offset: QueueOffset) -> bool:
        table = self._table()
        if table.get(queue) != offset:
            table[queue] = offset
            self._changed = True
        return True

    async def flush(self) -> None:
        """Write the file. A failure is logged, and the offsets are written again next time."""
        if not self._changed:
            return
        self._changed = False
        try:
            # In a thread, because a sync takes milliseconds, and the event loop serves every client of the process.
            await asyncio.to_thread(self._write, encode_offsets(self._table()))
        except (OSError, StoreError) as error:
            self._changed = True
            log.warning("the progress could not be written to %s: %s", self._path, error)

    def _write(self, data: bytes) -> None:
        self._disk.make_dirs(os.path.dirname(self._path), durable=False)
        if self._disk.exists(self._path):
            write_durably(self._disk, self._path + BACKUP, read_whole(self._disk, self._path))
        write_durably(self._disk, self._path, data)

    def _table(self) -> dict[MessageQueue, QueueOffset]:
        if self._offsets is None:
            self._offsets = self._read(self._path) or self._read(self._path + BACKUP) or {}
        return self._offsets

    def _read(self, path: str) -> dict[MessageQueue, QueueOffset] | None:
        try:
            return decode_offsets(read_whole(self._disk, path))
        except FileNotFoundError:
            return None
        except (OSError, StoreError, RemoteProtocolError) as error:
            log.warning("the progress in %s cannot be read: %s", path, error)
            return None


def encode_offsets(offsets: dict[MessageQueue, QueueOffset]) -> bytes:
    """The text of the file as Java writes it: fastjson allows objects as keys."""
    entries = (b"%b:%d" % (msgspec.json.encode(queue, order="sorted"), offsets[queue]) for queue in sorted(offsets))
    return b'{"offsetTable":{%b}}' % b",".join(entries)


def decode_offsets(data: bytes) -> dict[MessageQueue, QueueOffset]:
    """Read the text of the file. Raises RemoteProtocolError when it is damaged."""
    try:
        table = lenient_json.loads(data)["offsetTable"]
        return {msgspec.json.decode(key, type=MessageQueue): QueueOffset(int(value)) for key, value in table.items()}
    except (KeyError, TypeError, ValueError, AttributeError, msgspec.MsgspecError) as error:
        raise RemoteProtocolError(f"it is not a table of offsets: {error!r}") from error
