"""What is in a cluster, for the tests of the sink."""

from __future__ import annotations

import asyncio

from gantrymq import MessageView, PullConsumer
from gantrymq.aio import Admin
from gantrymq.client.results import PullStatus
from gantrymq.errors import RouteNotFound
from gantrymq.spark.sink.options import DEFAULT_GROUP


def messages(name_servers: str, topic: str) -> list[MessageView]:
    """All messages of a topic, queue by queue; none when there is no such topic."""
    found: list[MessageView] = []
    with PullConsumer(name_servers=name_servers) as consumer:
        try:
            queues = consumer.queues(topic)
        except RouteNotFound:
            return []
        for queue in queues:
            offset, end = consumer.min_offset(queue), consumer.max_offset(queue)
            while offset < end:
                answer = consumer.pull(queue, offset, 1000)
                assert answer.status is PullStatus.FOUND
                found += answer.messages
                offset = answer.next_offset
    return found


def bodies(name_servers: str, topic: str) -> list[str]:
    return [message.body.decode() for message in messages(name_servers, topic)]


def open_halves(name_servers: str, group: str = DEFAULT_GROUP) -> int:
    """Half messages of a group that are neither committed nor rolled back, parked ones included."""

    async def count() -> int:
        async with Admin(name_servers) as admin:
            found = await admin.transactions.undecided()
            return sum(place.transaction.half.group == group for place in found)

    return asyncio.run(count())
