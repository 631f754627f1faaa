"""Compares the order database with the topic without Spark, for ``--no-spark``: every message is pulled and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gantrymq import PullConsumer
from gantrymq.demo.result import Verdict
from gantrymq.spark.pipelines.ready_made.order_event import OrderPaid

PULL_MAX_MESSAGES = 1_000


def delivered_orders(name_servers: str, topic: str) -> Counter[str]:
    """The number of messages of each order in the topic."""
    found: Counter[str] = Counter()
    with PullConsumer(None, name_servers=name_servers) as consumer:
        for queue in consumer.queues(topic):
            offset, end = consumer.min_offset(queue), consumer.max_offset(queue)
            while offset < end:
                pulled = consumer.pull(queue, offset, PULL_MAX_MESSAGES)
                found.update(OrderPaid.from_body(message.body).order_id for message in pulled.messages)
                offset = pulled.next_offset
    return found


def compare(paid: Iterable[str], delivered: Counter[str]) -> Verdict:
    """Check that the topic contains each paid order once and nothing else."""
    wanted = set(paid)
    missing = sorted(wanted - delivered.keys())
    phantom = sorted(delivered.keys() - wanted)
    doubled = sorted(order for order, times in delivered.items() if times > 1)
    return Verdict(
        by="pull consumer",
        missing=len(missing),
        doubled=len(doubled),
        phantom=len(phantom),
        wrong=0,
        delivered_twice=len(doubled),
        named={"missing": missing, "doubled": doubled, "phantom": phantom},
    )
