"""The messages of ``definition.proto``; the stub beside this file has their fields."""

from gantrymq.grpc.pool import names_of

globals().update(names_of("definition"))
