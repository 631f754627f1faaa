"""Traces with OpenTelemetry: which tracer provider the clients of this process use. See docs/tracing.md.

A client makes spans if the program has set a tracer provider before the client is made, as OpenTelemetry's set-up does.
Otherwise it does nothing for traces, and OpenTelemetry need not be installed.
"""

from __future__ import annotations

from typing import Any

from gantrymq.client.tracing.provider import choose


def use(tracer_provider: Any) -> None:
    """Clients that are made from now on use this tracer provider. None: the global one, if the program has set it,
    which is the default. False: none, so that they make no spans."""
    choose(tracer_provider)


__all__ = ["use"]
