"""What is published, before it is a message of the client."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, TypedDict, Unpack

from faststream.response import BatchPublishCommand, PublishCommand, Response
from faststream.response.publish_type import PublishType

from gantrymq.errors import ConfigError
from gantrymq.message.arguments import shown
from gantrymq.message.message import Message, MessageView


class SendOptions(TypedDict, total=False):
    """What RocketMQ knows of a message beside its body: the keyword arguments of everything that publishes."""

    tags: str | None
    """One tag, by which subscribers select."""
    keys: str | Iterable[str] | None
    """Words by which the message is found again."""
    order_key: str | None
    """Messages with the same order key are delivered in the order of publishing, to orderly subscribers."""
    delay_level: int
    """Deliver after the delay of this level, 1..18."""
    delay_ms: int
    """Deliver after this many milliseconds."""
    deliver_at_ms: int
    """Deliver at this time, in milliseconds since 1970."""
    unique_key: str | None
    """An id that repeated sends share; see ``gantrymq.Message``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """The same as a value."""

    tags: str | None = None
    keys: str | Iterable[str] | None = None
    order_key: str | None = None
    delay_level: int = 0
    delay_ms: int = 0
    deliver_at_ms: int = 0
    unique_key: str | None = None

    def over(self, defaults: Sending) -> Sending:
        """These options, and those of ``defaults`` where this has none."""
        given = {name: value for name, value in asdict(self).items() if value}
        return replace(defaults, **given)

    def message(self, topic: str, body: bytes, properties: dict[str, str]) -> Message:
        """Raises MessageIllegal for what RocketMQ does not take."""
        return Message(
            topic, body or b"\0", properties=properties, tags=self.tags, keys=self.keys, delay_level=self.delay_level,
            delay_ms=self.delay_ms, deliver_at_ms=self.deliver_at_ms, unique_key=self.unique_key,
        )  # fmt: skip


def sending_of(options: SendOptions) -> Sending:
    """Raises ConfigError for an unknown option."""
    if "session" in options:
        raise ConfigError(
            "session goes to publish and publish_batch, inside the handler: what a handler returns is sent when its "
            "session has ended, and a request is answered at once"
        )
    unknown = sorted(set(options) - set(Sending.__dataclass_fields__))
    if unknown:
        known = ", ".join(Sending.__dataclass_fields__)
        raise ConfigError(f"{unknown[0]!r} is not a valid option of publishing; these are: {known}")
    order_key = options.get("order_key")
    if order_key is not None and not isinstance(order_key, str):
        raise ConfigError(f"order_key must be a text, not {shown(order_key)}")
    return Sending(**options)


class GantryResponse(Response):
    """What a handler returns to choose headers, tags or keys of the message that its publishers send. Also an item of
    ``publish_batch``.

    There is no ``session`` here: the publishers of a handler send when it has returned, and its dependencies have
    ended their transactions by then. Inside the handler, call ``publish(..., session=session)``.
    """

    def __init__(
        self,
        body: Any,
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        super().__init__(body, headers=headers, correlation_id=correlation_id)
        self.sending = sending_of(options)

    def get_publish_key(self) -> str | None:
        return self.sending.order_key

    def as_publish_command(self) -> GantryPublishCommand:
        return GantryPublishCommand(
            self.body, topic="", headers=self.headers, correlation_id=self.correlation_id, sending=self.sending,
            _publish_type=PublishType.PUBLISH,
        )  # fmt: skip


class GantryPublishCommand(BatchPublishCommand):
    """One call of publish, publish_batch or request, as middlewares see it."""

    def __init__(
        self,
        message: Any,
        /,
        *messages: Any,
        topic: str,
        _publish_type: PublishType,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        sending: Sending = Sending(),
        session: Any = None,
        timeout: float | None = None,
    ) -> None:
        if headers is not None and not isinstance(headers, dict):
            raise ConfigError(f"headers must be a dictionary of names and values, not {shown(headers)}")
        super().__init__(
            message, *messages, destination=topic, headers=headers, correlation_id=correlation_id, reply_to=reply_to,
            _publish_type=_publish_type,
        )  # fmt: skip
        self.sending = sending
        self.session = session
        """The session or connection whose transaction the message belongs to."""
        self.timeout = timeout
        self.request: MessageView | None = None
        """The request that this message is the reply to."""

    def headers_to_publish(self) -> dict[str, Any]:
        own: dict[str, Any] = {}
        if self.correlation_id:
            own["correlation_id"] = self.correlation_id
        if self.reply_to:
            own["reply_to"] = self.reply_to
        return own | self.headers

    @classmethod
    def from_cmd(cls, cmd: PublishCommand, *, batch: bool = False) -> GantryPublishCommand:
        if isinstance(cmd, GantryPublishCommand):
            return cmd
        body, further = cls._parse_bodies(cmd.body, batch=batch)
        return cls(
            body, *further, topic=cmd.destination, headers=cmd.headers, correlation_id=cmd.correlation_id,
            reply_to=cmd.reply_to, _publish_type=cmd.publish_type,
        )  # fmt: skip
