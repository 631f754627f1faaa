"""Reflection: a tool such as grpcurl asks which services and messages there are, and is told what RocketMQ has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

from google.protobuf.descriptor import FileDescriptor

from gantrymq.grpc.common_messages import REFLECTION, common_message
from gantrymq.grpc.pool import find_file
from gantrymq.grpc.serving.call import Requests
from gantrymq.grpc.serving.methods import Context, Method
from gantrymq.grpc.serving.statuses import GrpcStatus

SERVICES: Final = tuple(f"{package}.ServerReflection" for package in REFLECTION)


def reflection(services: Sequence[str]) -> dict[str, dict[str, Method]]:
    """The methods of both versions, which say that there are ``services``."""
    return {
        f"{package}.ServerReflection": {"ServerReflectionInfo": _method(package, services)} for package in REFLECTION
    }


def _method(package: str, services: Sequence[str]) -> Method:
    answer_class = common_message(f"{package}.ServerReflectionResponse")

    async def answers(requests: Requests, context: Context) -> AsyncIterator[Any]:
        async for request in requests:
            answer = answer_class(valid_host=request.host, original_request=request)
            _answer(request, answer, services)
            yield answer

    return Method(common_message(f"{package}.ServerReflectionRequest"), answers, True, True)


def _answer(request: Any, answer: Any, services: Sequence[str]) -> None:
    asked = request.WhichOneof("message_request")
    if asked == "list_services":
        for name in services:
            answer.list_services_response.service.add(name=name)
        return
    found = None
    if asked in ("file_by_filename", "file_containing_symbol"):
        found = find_file(getattr(request, asked), by_symbol=asked == "file_containing_symbol")
    if found is not None:
        answer.file_descriptor_response.file_descriptor_proto.extend(file.serialized_pb for file in _with_all(found))
    elif asked is None:
        answer.error_response.error_code = int(GrpcStatus.UNIMPLEMENTED)
        answer.error_response.error_message = "ask for a file, for a symbol, or for the services"
    else:
        answer.error_response.error_code = int(GrpcStatus.NOT_FOUND)
        answer.error_response.error_message = f"{getattr(request, asked)[:200]} is not there"


def _with_all(file: FileDescriptor) -> Iterator[FileDescriptor]:
    """A file and all that it needs, each once."""
    seen: dict[str, FileDescriptor] = {}
    waiting = [file]
    while waiting:
        one = waiting.pop()
        if one.name not in seen:
            seen[one.name] = one
            waiting += one.dependencies
    yield from seen.values()
