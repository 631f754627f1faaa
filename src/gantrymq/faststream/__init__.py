"""GantryMQ as a broker of FastStream. Needs ``gantrymq[faststream]``; see docs/faststream.md."""

try:
    import faststream as _faststream  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError("gantrymq.faststream needs FastStream: pip install 'gantrymq[faststream]'") from error

from gantrymq.faststream.broker import GantryBroker
from gantrymq.faststream.message import GantryMessage
from gantrymq.faststream.publisher import GantryPublisher
from gantrymq.faststream.response import GantryPublishCommand, GantryResponse
from gantrymq.faststream.router import GantryPublisherRoute, GantryRoute, GantryRouter
from gantrymq.faststream.subscriber import GantrySubscriber
from gantrymq.faststream.testing import TestGantryBroker

__all__ = [
    "GantryBroker",
    "GantryMessage",
    "GantryPublishCommand",
    "GantryPublisher",
    "GantryPublisherRoute",
    "GantryResponse",
    "GantryRoute",
    "GantryRouter",
    "GantrySubscriber",
    "TestGantryBroker",
]
