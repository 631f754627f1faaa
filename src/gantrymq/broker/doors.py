"""The doors of a broker. A new protocol is a folder with a ``Door``, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gantrymq.broker.door import Door, Ground
from gantrymq.broker.remoting.door import RemotingDoor
from gantrymq.errors import ConfigError

MakeDoors = Callable[[Ground], Sequence[Door]]
"""The first door is the one whose address clients and name servers are told."""


def doors_of(ground: Ground) -> Sequence[Door]:
    """Those that the settings ask for."""
    doors: list[Door] = [RemotingDoor(ground)]
    if ground.config.network.http_port:
        from gantrymq.broker.http.door import HttpDoor  # loaded only where it is wanted

        doors.append(HttpDoor(ground))
    if ground.config.network.grpc_port:
        doors.append(_grpc(ground))
    return doors


def _grpc(ground: Ground) -> Door:
    try:
        from gantrymq.broker.grpc.door import GrpcDoor
    except ImportError as error:
        raise ConfigError(
            f"grpcPort needs the package protobuf; run: pip install 'gantrymq[grpc]' ({error})"
        ) from error
    return GrpcDoor(ground)
