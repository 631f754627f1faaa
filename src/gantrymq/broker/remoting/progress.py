"""The progress of topics and groups, for tools: 202, 208, 300, 303, 308, 314, 317, 321, 343."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from gantrymq.broker.operations.progress import GroupTopicProgress, ProgressQuestions
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.progress_bodies import Encoded, encoded_piece, of_all_groups_body, of_group_body
from gantrymq.errors import GantryError, LocalProtocolError
from gantrymq.protocol.bodies.groups import GroupList
from gantrymq.protocol.bodies.progress import CorrectionOffsets, TimeSpans, TopicStats, key_of
from gantrymq.protocol.bodies.topics import TopicList
from gantrymq.protocol.body import encode
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers import tools
from gantrymq.protocol.headers.topics import TopicOnly
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.stepwise import gather


class ProgressHandler:
    """Questions about positions."""

    def __init__(self, progress: ProgressQuestions, clock: Clock) -> None:
        self._progress = progress
        self._clock = clock

    def topic_stats(self, session: ClientSession, command: Command) -> bytes:
        """GET_TOPIC_STATS_INFO."""
        found = self._progress.of_topic(command.header(TopicOnly).topic)
        table = {key_of(queue): offsets for queue, offsets in found.queues.items()}
        body = TopicStats(offset_table=table, topic_put_tps=found.tps)
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())

    def consume_stats(self, session: ClientSession, command: Command) -> None:
        """GET_CONSUME_STATS."""
        header = command.header(tools.GetConsumeStats)
        topics = [header.topic] if header.topic else _names(header.topic_list, ";")
        self._answer(session, command, self._progress.of_group(header.consumer_group, topics), of_group_body)

    def broker_consume_stats(self, session: ClientSession, command: Command) -> None:
        """GET_BROKER_CONSUME_STATS."""
        pieces = self._progress.of_all_groups(ordered_only=command.header(tools.BrokerConsumeStats).is_order)
        self._answer(session, command, pieces, partial(of_all_groups_body, self._progress.address))

    def _answer(
        self,
        session: ClientSession,
        command: Command,
        pieces: Iterator[GroupTopicProgress],
        body_of: Callable[[Sequence[Encoded]], bytes],
    ) -> None:
        """Put together in turns of the loop."""

        def done(encoded: list[Encoded]) -> None:
            try:
                frame = encode_response(command, ResponseCode.SUCCESS, body=body_of(encoded))
            except LocalProtocolError as error:
                failed(error)
            else:
                session.answer(command, frame)

        def failed(error: GantryError) -> None:
            remark = f"{error}; ask topic by topic" if isinstance(error, LocalProtocolError) else str(error)
            session.answer(command, encode_response(command, ResponseCode.SYSTEM_ERROR, remark=remark))

        gather(self._clock, map(encoded_piece, pieces), done, failed)

    def who_consumes(self, session: ClientSession, command: Command) -> bytes:
        """QUERY_TOPIC_CONSUME_BY_WHO."""
        groups = self._progress.groups_of(command.header(TopicOnly).topic)
        return encode_response(command, ResponseCode.SUCCESS, body=GroupList(group_list=groups).encode())

    def topics_of_group(self, session: ClientSession, command: Command) -> bytes:
        """QUERY_TOPICS_BY_CONSUMER."""
        topics = self._progress.topics_of(command.header(tools.GroupTopics).group)
        return encode_response(command, ResponseCode.SUCCESS, body=TopicList(topic_list=topics).encode())

    def time_span(self, session: ClientSession, command: Command) -> bytes:
        """QUERY_CONSUME_TIME_SPAN."""
        header = command.header(tools.TopicAndGroup)
        body = TimeSpans(consume_time_span_set=self._progress.time_spans(header.topic, header.group))
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())

    def correction(self, session: ClientSession, command: Command) -> bytes:
        """QUERY_CORRECTION_OFFSET."""
        header = command.header(tools.CorrectionOffset)
        left_out = set(_names(header.filter_groups, ","))
        offsets = self._progress.correction(header.topic, header.compare_group, left_out)
        body = CorrectionOffsets(correction_offsets=offsets)
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())

    def clone_offsets(self, session: ClientSession, command: Command) -> bytes:
        """CLONE_GROUP_OFFSET."""
        header = command.header(tools.CloneOffsets)
        self._progress.clone_offsets(header.src_group, header.dest_group, header.topic, offline=bool(header.offline))
        return encode_response(command, ResponseCode.SUCCESS)

    def consume_queue(self, session: ClientSession, command: Command) -> bytes:
        """QUERY_CONSUME_QUEUE."""
        header = command.header(tools.QueryConsumeQueue)
        body = self._progress.entries(
            header.topic, header.queue_id, header.index, header.count, header.consumer_group
        )  # fmt: skip
        return encode_response(command, ResponseCode.SUCCESS, body=encode(body))


def _names(text: str | None, separator: str) -> list[str]:
    return [name for name in (text or "").split(separator) if name]
