"""Types for the arguments of handlers: ``async def handle(body: Order, msg: GantryMessage, broker: GantryBroker)``."""

from typing import Annotated

from faststream._internal.context import Context
from faststream.annotations import ContextRepo, Logger
from faststream.params import NoCast

from gantrymq.faststream.broker import GantryBroker as _Broker
from gantrymq.faststream.message import GantryMessage as _Message
from gantrymq.faststream.producer import GantryProducer as _Producer

__all__ = ["ContextRepo", "GantryBroker", "GantryMessage", "GantryProducer", "Logger", "NoCast"]

GantryBroker = Annotated[_Broker, Context("broker")]
GantryMessage = Annotated[_Message, Context("message")]
GantryProducer = Annotated[_Producer, Context("broker._producer")]
