"""What the members of a group do with a queue alike: one pull, and the pause after one that failed.

Source: PullMessageService, DefaultMQPushConsumerImpl.pullMessage; docs/protocol.md#pulling.
"""

from __future__ import annotations

import logging
from typing import Final

from gantrymq.client.config import LitePullConfig, PushConfig
from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.consuming.filters import Filter
from gantrymq.client.consuming.pulling import DEFAULT_MAX_BYTES, pull_answer, pull_request
from gantrymq.client.results import RawPull
from gantrymq.errors import GantryError, RequestRejected, Unreachable
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.codes import RequestCode, ResponseCode

log = logging.getLogger("gantrymq.client")

ERROR_PAUSE_S: Final = 1.0
"""The pause after a pull that failed (pullTimeDelayMillsWhenException)."""
FLOW_CONTROL_PAUSE_S: Final = 0.02
"""The pause after a broker asked to slow down (pullTimeDelayMillsWhenFlowControl)."""


async def pull_from(
    endpoint: Endpoint, config: PushConfig | LitePullConfig, group: str, queue: MessageQueue, offset: QueueOffset,
    wanted: Filter, commit: QueueOffset | None = None,
) -> RawPull:  # fmt: skip
    """The answer of the queue's broker, which may hold the request. ``commit``: the progress to store there."""
    address = endpoint.routes.readable(queue.broker_name)
    if address is None:
        raise Unreachable(queue.broker_name, "the name servers know no address of that broker")
    header = pull_request(
        group, queue, offset, config.pull_batch_size, DEFAULT_MAX_BYTES,
        tags=wanted.text, kind=wanted.kind, wait_ms=config.pull_suspend_ms, commit_offset=commit,
    )  # fmt: skip
    answer = await endpoint.call(address, RequestCode.PULL_MESSAGE, header, timeout_ms=config.pull_timeout_ms)
    return pull_answer(answer, queue, address)


async def pause_after(endpoint: Endpoint, queue: MessageQueue, error: GantryError) -> None:
    """Wait before the next pull; for most errors a second, and with the routes asked for again."""
    if isinstance(error, RequestRejected) and error.code == ResponseCode.FLOW_CONTROL:
        await endpoint.clock.sleep(FLOW_CONTROL_PAUSE_S)
        return
    log.info("pull from %s failed: %s", queue, error)
    await endpoint.clock.sleep(ERROR_PAUSE_S)
    await endpoint.routes.refresh([queue.topic])
