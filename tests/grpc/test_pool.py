"""The messages are those of Apache's files, and live beside another set of the same names."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from tools.grpc_code import HOME, make

from gantrymq.grpc import definition_pb2, service_pb2
from gantrymq.grpc.pool import FOLDER, SERVICE


def test_what_is_in_the_repository_is_made_from_the_files_of_apache(tmp_path: Path) -> None:
    make(tmp_path)
    ours = descriptor_pb2.FileDescriptorSet.FromString((HOME / "messages.binpb").read_bytes())
    again = descriptor_pb2.FileDescriptorSet.FromString((tmp_path / "messages.binpb").read_bytes())
    assert [file for file in ours.file if file.name.startswith(FOLDER)] == [
        file for file in again.file if file.name.startswith(FOLDER)
    ]


def test_the_common_pool_of_protobuf_stays_free_for_other_clients() -> None:
    assert definition_pb2.Message(body=b"x").body == b"x"
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("apache.rocketmq.v2.Message")


def test_messages_enums_and_their_values_have_the_names_of_generated_modules() -> None:
    assert definition_pb2.Code.TOPIC_NOT_FOUND == definition_pb2.TOPIC_NOT_FOUND == 40402
    assert definition_pb2.MessageType.Name(4) == "TRANSACTION"
    request = service_pb2.SendMessageRequest(messages=[definition_pb2.Message(body=b"x")])
    assert service_pb2.SendMessageRequest.FromString(request.SerializeToString()) == request


def test_the_service_has_the_name_that_clients_call() -> None:
    services = service_pb2.DESCRIPTOR.services_by_name
    assert [service.full_name for service in services.values()] == [SERVICE]
