"""Tools create, show and delete topics: 17, 21, 215, 305, 351, 353 and GET_SYSTEM_TOPIC_LIST_FROM_BROKER."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.broker.operations.topics import TopicAdministration, TopicOrder
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.errors import StoreError
from gantrymq.protocol.bodies.topics import TopicConfig, TopicConfigList, TopicList
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.topics import CreateTopic, TopicOnly


class TopicHandler:
    """Requests of tools about topics."""

    def __init__(self, topics: TopicAdministration) -> None:
        self._topics = topics

    def update_topic(self, session: ClientSession, command: Command) -> None:
        """UPDATE_AND_CREATE_TOPIC."""
        self._topics.update([_of_header(command.header(CreateTopic))], _success(session, command))

    def update_topics(self, session: ClientSession, command: Command) -> None:
        """UPDATE_AND_CREATE_TOPIC_LIST."""
        wanted = TopicConfigList.decode(command.body).topic_config_list
        self._topics.update([_of_config(topic) for topic in wanted], _success(session, command))

    def delete_topic(self, session: ClientSession, command: Command) -> None:
        """DELETE_TOPIC_IN_BROKER."""

        def done(error: StoreError | None) -> None:
            code = ResponseCode.SUCCESS if error is None else ResponseCode.SYSTEM_ERROR
            remark = None if error is None else str(error)
            session.answer(command, encode_response(command, code, remark=remark))

        self._topics.delete(command.header(TopicOnly).topic, done)

    def topic(self, session: ClientSession, command: Command) -> bytes:
        """GET_TOPIC_CONFIG."""
        config = self._topics.get(command.header(TopicOnly).topic)
        return encode_response(command, ResponseCode.SUCCESS, body=config.encode())

    def all_topics(self, session: ClientSession, command: Command) -> bytes:
        """GET_ALL_TOPIC_CONFIG."""
        return encode_response(command, ResponseCode.SUCCESS, body=self._topics.table().encode())

    def system_topics(self, session: ClientSession, command: Command) -> bytes:
        """GET_SYSTEM_TOPIC_LIST_FROM_BROKER."""
        body = TopicList(topic_list=self._topics.system_topics())
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())


def _success(session: ClientSession, command: Command) -> Callable[[], None]:
    return lambda: session.answer(command, encode_response(command, ResponseCode.SUCCESS))


def _of_header(header: CreateTopic) -> TopicOrder:
    return TopicOrder(
        header.topic, header.read_queue_nums, header.write_queue_nums, header.perm, header.topic_filter_type,
        header.topic_sys_flag or 0, header.order, header.attributes,
    )  # fmt: skip


def _of_config(topic: TopicConfig) -> TopicOrder:
    """A topic of a list. Its attributes have signs, as in a request for one topic."""
    attributes = ",".join(f"{name}={value}" if value else name for name, value in (topic.attributes or {}).items())
    return TopicOrder(
        topic.topic_name, topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.topic_filter_type,
        topic.topic_sys_flag or 0, topic.order, attributes,
    )  # fmt: skip
