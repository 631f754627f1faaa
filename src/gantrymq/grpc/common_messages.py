"""Messages of two services that gRPC itself defines: health (for load balancers) and reflection (for tools).

Source: grpc/health/v1/health.proto and grpc/reflection/v1/reflection.proto. Of reflection, extensions are left out:
RocketMQ's messages have none. Its older version v1alpha is the same under another name.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

HEALTH: Final = "grpc.health.v1"
REFLECTION: Final = ("grpc.reflection.v1", "grpc.reflection.v1alpha")
SERVING, NOT_SERVING = 1, 2

_HEALTH_FILE: Final = """
name: "grpc/health/v1/health.proto" package: "grpc.health.v1" syntax: "proto3"
message_type { name: "HealthCheckRequest"
  field { name: "service" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL } }
message_type { name: "HealthCheckResponse"
  field { name: "status" number: 1 type: TYPE_ENUM label: LABEL_OPTIONAL
          type_name: ".grpc.health.v1.HealthCheckResponse.ServingStatus" }
  enum_type { name: "ServingStatus" value { name: "UNKNOWN" number: 0 } value { name: "SERVING" number: 1 }
              value { name: "NOT_SERVING" number: 2 } value { name: "SERVICE_UNKNOWN" number: 3 } } }
"""
_REFLECTION_FILE: Final = """
name: "PACKAGE/reflection.proto" package: "PACKAGE" syntax: "proto3"
message_type { name: "ServerReflectionRequest"
  field { name: "host" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "file_by_filename" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "file_containing_symbol" number: 4 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "list_services" number: 7 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
  oneof_decl { name: "message_request" } }
message_type { name: "ServerReflectionResponse"
  field { name: "valid_host" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "original_request" number: 2 type: TYPE_MESSAGE label: LABEL_OPTIONAL
          type_name: ".PACKAGE.ServerReflectionRequest" }
  field { name: "file_descriptor_response" number: 4 type: TYPE_MESSAGE label: LABEL_OPTIONAL oneof_index: 0
          type_name: ".PACKAGE.FileDescriptorResponse" }
  field { name: "list_services_response" number: 6 type: TYPE_MESSAGE label: LABEL_OPTIONAL oneof_index: 0
          type_name: ".PACKAGE.ListServiceResponse" }
  field { name: "error_response" number: 7 type: TYPE_MESSAGE label: LABEL_OPTIONAL oneof_index: 0
          type_name: ".PACKAGE.ErrorResponse" }
  oneof_decl { name: "message_response" } }
message_type { name: "FileDescriptorResponse"
  field { name: "file_descriptor_proto" number: 1 type: TYPE_BYTES label: LABEL_REPEATED } }
message_type { name: "ListServiceResponse"
  field { name: "service" number: 1 type: TYPE_MESSAGE label: LABEL_REPEATED type_name: ".PACKAGE.ServiceResponse" } }
message_type { name: "ServiceResponse"
  field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL } }
message_type { name: "ErrorResponse"
  field { name: "error_code" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "error_message" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL } }
"""


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for text in (_HEALTH_FILE, *(_REFLECTION_FILE.replace("PACKAGE", package) for package in REFLECTION)):
        pool.Add(text_format.Parse(text, descriptor_pb2.FileDescriptorProto()))
    return pool


@cache
def common_message(name: str) -> Any:
    """The class of a message, by its full name."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(name))
