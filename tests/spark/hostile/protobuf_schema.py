"""The message type of the generator's bodies in Protobuf, without protoc."""

from __future__ import annotations

from typing import Any

NAME = "hostile.Event"
_FIELDS = (
    ("id", "TYPE_STRING"), ("n", "TYPE_INT32"), ("price", "TYPE_INT64"), ("at", "TYPE_MESSAGE"),
    ("note", "TYPE_STRING"), ("kind", "TYPE_STRING"), ("code", "TYPE_STRING"), ("ratio", "TYPE_DOUBLE"),
)  # fmt: skip


_SCALARS = {"TYPE_MESSAGE": "google.protobuf.Timestamp"}
PROTO = (
    'syntax = "proto2"; package hostile; import "google/protobuf/timestamp.proto";\nmessage Event { '
    + " ".join(
        f"optional {_SCALARS.get(kind, kind.removeprefix('TYPE_').lower())} {name} = {number};"
        for number, (name, kind) in enumerate(_FIELDS, 1)
    )
    + " }"
)
"""The same as a text, for a registry."""


def descriptor_set() -> bytes:
    """What protoc writes for the type: every field is optional, and knows whether it is there."""
    from google.protobuf import descriptor_pb2, timestamp_pb2

    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(
        name="hostile.proto", package="hostile", syntax="proto2", dependency=[timestamp_pb2.DESCRIPTOR.name]
    )
    event = file.message_type.add(name="Event")
    for number, (name, kind) in enumerate(_FIELDS, 1):
        field = event.field.add(name=name, number=number, type=kind, label="LABEL_OPTIONAL")
        if kind == "TYPE_MESSAGE":
            field.type_name = ".google.protobuf.Timestamp"
    return files.SerializeToString()


def message_type() -> Any:
    """The class of messages."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(NAME))
