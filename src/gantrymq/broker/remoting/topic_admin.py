"""Tools create, show and delete topics: 17, 21, 215, 305, 351, 353 and GET_SYSTEM_TOPIC_LIST_FROM_BROKER."""

from __future__ import annotations

from gantrymq.broker.operations.table_changes import DeleteTopic, MakeTopics, TableChanges
from gantrymq.broker.operations.topics import Outcome, TopicAdministration, TopicOrder
from gantrymq.broker.refusal import Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.errors import GantryError
from gantrymq.protocol.bodies.topics import TopicConfigList, TopicList
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.files.topics import TopicConfig
from gantrymq.protocol.headers.topics import AllTopicsAnswer, CreateTopic, TopicOnly


class TopicHandler:
    """Requests of tools about topics."""

    def __init__(self, topics: TopicAdministration, changes: TableChanges) -> None:
        self._topics = topics
        self._changes = changes

    def update_topic(self, session: ClientSession, command: Command) -> None:
        """UPDATE_AND_CREATE_TOPIC."""
        self._changes.add(MakeTopics([_of_header(command.header(CreateTopic))], outcome_of(session, command)))

    def update_topics(self, session: ClientSession, command: Command) -> None:
        """UPDATE_AND_CREATE_TOPIC_LIST."""
        wanted = TopicConfigList.of_request(command.body).topic_config_list
        self._changes.add(MakeTopics([_of_config(topic) for topic in wanted], outcome_of(session, command)))

    def delete_topic(self, session: ClientSession, command: Command) -> None:
        """DELETE_TOPIC_IN_BROKER."""

        def done(error: GantryError | None) -> None:
            code = ResponseCode.SUCCESS if error is None else ResponseCode.SYSTEM_ERROR
            remark = None if error is None else str(error)
            session.answer(command, encode_response(command, code, remark=remark))

        self._changes.add(DeleteTopic(command.header(TopicOnly).topic, done))

    def topic(self, session: ClientSession, command: Command) -> bytes:
        """GET_TOPIC_CONFIG."""
        config = self._topics.get(command.header(TopicOnly).topic)
        return encode_response(command, ResponseCode.SUCCESS, body=config.encode())

    def all_topics(self, session: ClientSession, command: Command) -> bytes:
        """GET_ALL_TOPIC_CONFIG. Whoever asks for pages gets everything as the first one."""
        header = AllTopicsAnswer(total_topic_num=len(self._topics.table().topic_config_table))
        return encode_response(command, ResponseCode.SUCCESS, header, self._topics.encoded_table())

    def system_topics(self, session: ClientSession, command: Command) -> bytes:
        """GET_SYSTEM_TOPIC_LIST_FROM_BROKER."""
        body = TopicList(topic_list=self._topics.system_topics())
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())


def outcome_of(session: ClientSession, command: Command) -> Outcome:
    """Answers a request when its change was made, or was refused."""

    def answer(refused: Refused | None) -> None:
        made = encode_response(command, ResponseCode.SUCCESS) if refused is None else rejected(command, refused)
        session.answer(command, made)

    return answer


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
