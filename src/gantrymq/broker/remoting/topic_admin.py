"""Topics and groups, as tools make, show and remove them: 17, 18, 21, 200, 201, 207, 215, 225, 305, 351 to 353.

Source: AdminBrokerProcessor.
"""

from __future__ import annotations

from typing import Final

from gantrymq.broker.durability import refusal
from gantrymq.broker.pop.names import pop_retry_topic
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.groups import Group, Groups
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.topics import MAX_QUEUES, Topics, apply_attributes
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.upkeep.registration import Announce
from gantrymq.broker.upkeep.statistics import Statistics
from gantrymq.errors import ConfigError, MessageIllegal, StoreError
from gantrymq.message import system_topics
from gantrymq.protocol.bodies.groups import GroupConfigList, GroupForbidden
from gantrymq.protocol.bodies.topics import TopicConfig, TopicConfigList, TopicList
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.tools import UpdateForbidden
from gantrymq.protocol.headers.topics import CreateTopic, DeleteGroup, GroupOnly, TopicOnly
from gantrymq.store.message_store import MessageStore

_KEPT: Final = system_topics.NOT_SENDABLE | {system_topics.AUTO_CREATE, system_topics.BENCHMARK}
"""Topics that can be neither altered nor removed."""
_PERMS: Final = range(8)


class TopicAdminProcessor:
    """Requests of tools about topics and groups."""

    def __init__(
        self,
        topics: Topics,
        groups: Groups,
        offsets: ConsumerOffsets,
        store: MessageStore,
        statistics: Statistics,
        announce: Announce,
    ) -> None:
        self._store = store
        self._statistics = statistics
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._announce = announce

    def update_topic(self, session: ClientSession, command: Command) -> bytes | None:
        """UPDATE_AND_CREATE_TOPIC; answered when the name servers know it, so that its route can be asked at once."""
        self._update(self._checked(command.header(CreateTopic)))
        self._announce(lambda: session.send(encode_response(command, ResponseCode.SUCCESS)))
        return None

    def update_topics(self, session: ClientSession, command: Command) -> None:
        """UPDATE_AND_CREATE_TOPIC_LIST: all or, when one cannot be, none."""
        wanted = TopicConfigList.decode(command.body).topic_config_list
        if not wanted:
            raise Refused(Refusal.PARAMETER_INVALID, "the list names no topic")
        for config in [self._checked(_as_header(topic)) for topic in wanted]:
            self._update(config)
        self._announce(lambda: session.send(encode_response(command, ResponseCode.SUCCESS)))

    def _update(self, topic: TopicConfig) -> None:
        try:
            self._topics.update(topic)
        except StoreError as error:
            raise refusal(error) from error

    def _checked(self, header: CreateTopic) -> TopicConfig:
        known = self._topics.get(header.topic)
        try:
            system_topics.check_topic(header.topic)
            attributes = apply_attributes((known.attributes if known is not None else None) or {}, header.attributes)
        except (MessageIllegal, ConfigError) as error:
            raise Refused(Refusal.PARAMETER_INVALID, str(error)) from error
        if header.topic in _KEPT:
            raise Refused(
                Refusal.PARAMETER_INVALID, f"the topic {header.topic!r} belongs to the system; choose another name"
            )
        for name, value in (("readQueueNums", header.read_queue_nums), ("writeQueueNums", header.write_queue_nums)):
            if not 1 <= value <= MAX_QUEUES:
                raise Refused(Refusal.PARAMETER_INVALID, f"{name} is {value}; it must be between 1 and {MAX_QUEUES}")
        if header.perm not in _PERMS:
            raise Refused(
                Refusal.PARAMETER_INVALID,
                f"perm is {header.perm}; write 6 (read and write), 4 (read) or 2 (write)",
            )
        return TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
            attributes=attributes,
        )

    def delete_topic(self, session: ClientSession, command: Command) -> None:
        """DELETE_TOPIC_IN_BROKER; answered when its queues are gone. Made again the topic begins empty."""
        topic = command.header(TopicOnly).topic
        if topic in _KEPT:
            raise Refused(Refusal.PARAMETER_INVALID, f"the topic {topic!r} belongs to the system and stays")
        retries = [
            pop_retry_topic(topic, group, v2=v2) for group in self._offsets.groups_of(topic) for v2 in (False, True)
        ]
        gone = [name for name in retries if self._topics.exists(name)] + [topic]
        for name in gone:
            self._topics.delete(name)
            self._offsets.forget_topic(name)
            self._statistics.forget_topic(name)
        # At once: after a crash, old offsets would pass over what is sent to a new topic of this name.
        self._offsets.save()
        errors: list[StoreError] = []

        def done(error: StoreError | None) -> None:
            errors.extend([error] if error is not None else [])
            left.pop()
            if not left:
                code = ResponseCode.SYSTEM_ERROR if errors else ResponseCode.SUCCESS
                session.send(encode_response(command, code, remark=str(errors[0]) if errors else None))

        left = list(gone)
        for name in gone:
            self._store.delete_topic(name, done)

    def topic(self, session: ClientSession, command: Command) -> bytes:
        """GET_TOPIC_CONFIG."""
        name = command.header(TopicOnly).topic
        config = self._topics.get(name)
        if config is None:
            raise Refused(Refusal.TOPIC_UNKNOWN, f"No topic in this broker. topic: {name}")
        return encode_response(command, ResponseCode.SUCCESS, body=config.encode())

    def all_topics(self, session: ClientSession, command: Command) -> bytes:
        """GET_ALL_TOPIC_CONFIG."""
        return encode_response(command, ResponseCode.SUCCESS, body=self._topics.table().encode())

    def update_group(self, session: ClientSession, command: Command) -> bytes:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP."""
        try:
            self._groups.update(Group.decode(command.body))
        except MessageIllegal as error:
            raise Refused(Refusal.PARAMETER_INVALID, str(error)) from error
        return encode_response(command, ResponseCode.SUCCESS)

    def update_groups(self, session: ClientSession, command: Command) -> bytes:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: all or, when one cannot be, none."""
        wanted = GroupConfigList.decode(command.body).group_config_list
        try:
            for group in wanted:
                system_topics.check_group(group.group_name)
            for group in wanted:
                self._groups.update(group)
        except MessageIllegal as error:
            raise Refused(Refusal.PARAMETER_INVALID, str(error)) from error
        return encode_response(command, ResponseCode.SUCCESS)

    def forbid(self, session: ClientSession, command: Command) -> bytes:
        """UPDATE_AND_GET_GROUP_FORBIDDEN."""
        header = command.header(UpdateForbidden)
        if header.readable is not None:
            self._groups.forbid(header.group, header.topic, not header.readable)
        readable = not self._groups.is_forbidden(header.group, header.topic)
        body = GroupForbidden(group=header.group, topic=header.topic, readable=readable)
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())

    def system_topics(self, session: ClientSession, command: Command) -> bytes:
        """GET_SYSTEM_TOPIC_LIST_FROM_BROKER."""
        body = TopicList(topic_list=sorted(name for name in self._topics.names() if self._topics.is_system(name)))
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())

    def delete_group(self, session: ClientSession, command: Command) -> bytes:
        """DELETE_SUBSCRIPTIONGROUP."""
        header = command.header(DeleteGroup)
        self._groups.delete(header.group_name)
        if header.clean_offset or header.remove_offset:
            self._offsets.forget_group(header.group_name)
        return encode_response(command, ResponseCode.SUCCESS)

    def group(self, session: ClientSession, command: Command) -> bytes:
        """GET_SUBSCRIPTIONGROUP_CONFIG."""
        name = command.header(GroupOnly).group
        group = self._groups.get(name)
        if group is None:
            raise Refused(Refusal.GROUP_UNKNOWN, f"No group in this broker. group: {name}")
        return encode_response(command, ResponseCode.SUCCESS, body=group.encode())

    def all_groups(self, session: ClientSession, command: Command) -> bytes:
        """GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""
        return encode_response(command, ResponseCode.SUCCESS, body=self._groups.table().encode())


def _as_header(topic: TopicConfig) -> CreateTopic:
    """A topic of a list in the form of a request for one. Its attributes have signs, as in such a request."""
    attributes = ",".join(f"{name}={value}" if value else name for name, value in (topic.attributes or {}).items())
    return CreateTopic(
        topic=topic.topic_name,
        default_topic=system_topics.AUTO_CREATE,
        read_queue_nums=topic.read_queue_nums,
        write_queue_nums=topic.write_queue_nums,
        perm=topic.perm,
        topic_filter_type=topic.topic_filter_type,
        topic_sys_flag=topic.topic_sys_flag,
        order=topic.order,
        attributes=attributes,
    )
