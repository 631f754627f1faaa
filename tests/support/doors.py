"""The doors of a running broker, by their classes."""

from __future__ import annotations

from gantrymq.broker.broker import Broker
from gantrymq.broker.http.door import HttpDoor
from gantrymq.broker.remoting.door import RemotingDoor


def remoting(broker: Broker) -> RemotingDoor:
    """The door of RocketMQ's remoting protocol."""
    (door,) = (door for door in broker.doors if isinstance(door, RemotingDoor))
    return door


def http(broker: Broker) -> HttpDoor:
    """The HTTP door of a broker that has one."""
    (door,) = (door for door in broker.doors if isinstance(door, HttpDoor))
    return door
