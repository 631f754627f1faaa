"""The messages of the protocol, made from ``messages.binpb`` when they are first imported.

They have a pool of descriptors of their own. Generated modules would use protobuf's common pool, in which a name may
exist once: a process with another set of these messages, such as Apache's Python client, could not import ours. They
would also fail with a protobuf that is older than their generator.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

FOLDER: Final = "apache/rocketmq/v2"
SERVICE: Final = "apache.rocketmq.v2.MessagingService"
"""The service that clients call."""


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString((resources.files(__package__) / "messages.binpb").read_bytes())
    for file in files.file:
        pool.Add(file)
    return pool


def names_of(file: str) -> dict[str, Any]:
    """What a generated module for ``<file>.proto`` would contain: message classes, enums and their values."""
    described = file_of(file)
    names: dict[str, Any] = {"DESCRIPTOR": described}
    for name, message in described.message_types_by_name.items():
        names[name] = message_factory.GetMessageClass(message)
    for name, enum in described.enum_types_by_name.items():
        names[name] = EnumTypeWrapper(enum)
        names.update((value.name, value.number) for value in enum.values)
    return names


def find_file(name: str, *, by_symbol: bool) -> FileDescriptor | None:
    """The file with this name, or with the message, enum, field or service that has it; None: there is none."""
    try:
        return _pool().FindFileContainingSymbol(name) if by_symbol else _pool().FindFileByName(name)
    except KeyError:
        return None


def file_of(file: str) -> FileDescriptor:
    """The description of a file of the protocol."""
    return _pool().FindFileByName(f"{FOLDER}/{file}.proto")
