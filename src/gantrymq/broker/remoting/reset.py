"""INVOKE_BROKER_TO_RESET_OFFSET (222): a group shall go on somewhere else.

With ``useServerSideResetOffset`` the broker takes the new offsets over, and every member learns of them by the answer
to its next pull. Without it, as in 4.x, the members are told (220) and commit the offsets themselves. Source:
AdminBrokerProcessor.resetOffsetInner, Broker2Client.resetOffset; wire-protocol.md 6.6.
"""

from __future__ import annotations

from typing import Final

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.delivery.long_polling import HeldPulls
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import ConsumerGroups
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.topics import Topics
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.progress import OffsetsByQueue, key_of
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, encode_request, encode_response
from gantrymq.protocol.headers.tools import ResetOffset
from gantrymq.store.message_store import MessageStore

ALL_QUEUES: Final = -1


class ResetProcessor:
    """Sets a group back or forth in a topic."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        consumers: ConsumerGroups,
        offsets: ConsumerOffsets,
        held: HeldPulls,
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._offsets = offsets
        self._held = held

    def reset(self, session: ClientSession, command: Command) -> bytes:
        """Answered with the offsets by queue."""
        header = command.header(ResetOffset)
        config = self._topics.get(header.topic)
        if config is None:
            raise Refused(Refusal.TOPIC_UNKNOWN, f"Topic {header.topic} does not exist")
        if self._groups.get(header.group) is None:
            raise Refused(Refusal.GROUP_UNKNOWN, f"Group {header.group} does not exist")
        if self._config.use_server_side_reset_offset:
            offsets = self._on_our_side(header, config.read_queue_nums)
        else:
            offsets = self._on_their_side(header, config.write_queue_nums)
        body = self._body(header.topic, offsets)
        return encode_response(command, ResponseCode.SUCCESS, body=body)

    def _body(self, topic: str, offsets: dict[int, int]) -> bytes:
        queues = {key_of(MessageQueue(topic, self._config.broker_name, number)): at for number, at in offsets.items()}
        return OffsetsByQueue(offset_table=queues).encode()

    def _at(self, topic: str, queue_id: int, timestamp: int) -> int:
        if timestamp < 0:
            return self._store.queue_range(topic, queue_id)[1]
        return self._store.offset_by_time(topic, queue_id, timestamp)

    def _on_our_side(self, header: ResetOffset, queues: int) -> dict[int, int]:
        only = ALL_QUEUES if header.queue_id is None else header.queue_id
        if only == ALL_QUEUES:
            offsets = {number: self._at(header.topic, number, header.timestamp) for number in range(queues)}
        elif header.offset is None or header.offset < 0:
            offsets = {only: self._at(header.topic, only, header.timestamp)}
        else:
            first, end = self._store.queue_range(header.topic, only)
            if not first <= header.offset <= end:
                raise Refused(
                    Refusal.FAILED,
                    f"Target offset {header.offset} not in consume queue range [{first}-{end}]",
                )
            offsets = {only: header.offset}
        for queue_id, offset in offsets.items():
            self._offsets.reset(header.group, header.topic, queue_id, offset)
        # Who waits for a message would hear of it only when one comes.
        self._held.release(header.group, header.topic)
        return offsets

    def _on_their_side(self, header: ResetOffset, queues: int) -> dict[int, int]:
        group = self._consumers.get(header.group)
        if group is None:
            raise Refused(
                Refusal.CONSUMER_OFFLINE, f"Consumer not online, so can not reset offset, group: {header.group}"
            )
        offsets: dict[int, int] = {}
        for queue_id in range(queues):
            before = self._offsets.get(header.group, header.topic, queue_id)
            if before is None:
                raise Refused(Refusal.FAILED, f"the group {header.group} has no offset on queue {queue_id} yet")
            wanted = self._at(header.topic, queue_id, header.timestamp)
            offsets[queue_id] = wanted if header.is_force or wanted < before else before
        told = ResetOffset(topic=header.topic, group=header.group, timestamp=header.timestamp, is_force=header.is_force)
        body = self._body(header.topic, offsets)
        for member in group.members.values():
            session = member.session
            if session.alive and session.writable:
                session.send(
                    encode_request(
                        RequestCode.RESET_CONSUMER_CLIENT_OFFSET, session.next_opaque(), told, body, one_way=True
                    )
                )
        return offsets
