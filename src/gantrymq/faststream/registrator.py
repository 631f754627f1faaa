"""How subscribers and publishers are made, the same for brokers and routers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from faststream._internal.broker.registrator import Registrator
from faststream._internal.constants import EMPTY
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream.middlewares import AckPolicy

from gantrymq.faststream.config import (
    GantryBrokerConfig,
    GantryPublisherConfig,
    GantryPublisherSpecificationConfig,
    GantrySubscriberConfig,
    GantrySubscriberSpecificationConfig,
)
from gantrymq.faststream.publisher import GantryBatchPublisher, GantryPublisher
from gantrymq.faststream.response import SendOptions, sending_of
from gantrymq.faststream.specification import GantryPublisherSpecification, GantrySubscriberSpecification
from gantrymq.faststream.subscriber import GantrySubscriber
from gantrymq.message.heartbeat import ConsumeFromWhere

if TYPE_CHECKING:
    from fast_depends.dependencies import Dependant
    from faststream._internal.parser import CodecProto
    from faststream._internal.types import CustomCallable


class GantryRegistrator(Registrator[Any, GantryBrokerConfig]):
    """Has ``subscriber`` and ``publisher``."""

    def subscriber(  # type: ignore[override]
        self,
        topic: str,
        group: str = "",
        *,
        tags: str = "*",
        sql: str | None = None,
        from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET,
        max_workers: int = 1,
        batch: bool = False,
        max_records: int = 32,
        orderly: bool = False,
        broadcasting: bool = False,
        settings: dict[str, Any] | None = None,
        ack_policy: AckPolicy = EMPTY,
        no_reply: bool = False,
        dependencies: Sequence[Dependant] = (),
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        codec: CodecProto | None = None,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        include_in_schema: bool = True,
    ) -> GantrySubscriber:
        """Read ``topic`` as a member of the consumer group ``group``.

        ``tags``: ``"A || B"``, or ``sql``: an SQL92 expression over headers; the broker selects. ``from_where``: where
        a new group begins. ``max_workers``: handlers that run at once. ``batch``: the handler gets lists of up to
        ``max_records`` messages of one queue. ``orderly``: each queue's messages one after the other, in order.
        ``broadcasting``: every member gets every message. ``settings``: fields of ``PushConfig``, for example
        ``{"max_reconsume_times": 3}``. The others are FastStream's.

        ``ack_policy``: NACK_ON_ERROR unless given here, for the router or for the broker: a message whose handler
        raises is delivered again. REJECT_ON_ERROR puts it into the dead letters at once.
        """
        own = {
            "consume_threads": max_workers,
            "consume_batch_size": max_records if batch else 1,
            "orderly": orderly,
            "broadcasting": broadcasting,
        }
        config = GantrySubscriberConfig(
            _outer_config=cast(GantryBrokerConfig, self.config), _ack_policy=ack_policy, no_reply=no_reply, topic=topic,
            group=group, tags=tags, sql=sql, batch=batch, from_where=from_where, settings=own | (settings or {}),
        )  # fmt: skip
        described = GantrySubscriberSpecificationConfig(
            title_=title, description_=description, include_in_schema=include_in_schema, topic=topic, group=group
        )
        calls = CallsCollection[Any]()
        specification = GantrySubscriberSpecification(config._outer_config, described, calls)
        made = GantrySubscriber(config, specification, calls)
        super().subscriber(made, persistent=persistent)
        return made.add_call(
            parser_=parser or self._parser, decoder_=decoder or self._decoder, codec_=codec, dependencies_=dependencies
        )

    def publisher(  # type: ignore[override]
        self,
        topic: str,
        *,
        headers: dict[str, Any] | None = None,
        reply_to: str = "",
        batch: bool = False,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        schema: Any | None = None,
        include_in_schema: bool = True,
        **options: Unpack[SendOptions],
    ) -> GantryPublisher:
        """Send what a handler returns to ``topic``; or call its ``publish``. ``batch``: a list is a message for each
        item. ``options``: tags, keys, order_key, delays (see ``SendOptions``), which ``publish`` may override."""
        config = GantryPublisherConfig(
            _outer_config=cast(GantryBrokerConfig, self.config), topic=topic, headers=headers or {}, reply_to=reply_to,
            sending=sending_of(options),
        )  # fmt: skip
        described = GantryPublisherSpecificationConfig(
            title_=title, description_=description, schema_=schema, include_in_schema=include_in_schema, topic=topic
        )
        kind = GantryBatchPublisher if batch else GantryPublisher
        made = kind(config, GantryPublisherSpecification(config._outer_config, described))
        super().publisher(made, persistent=persistent)
        return made
