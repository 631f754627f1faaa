"""Decides, once for each client, whether it makes spans of OpenTelemetry, and with which tracer provider.

A program that has a tracer provider has imported ``opentelemetry.trace`` to set it. So a client looks only into
``sys.modules``: a program without OpenTelemetry pays nothing for it, not even an import.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.tracing.watch import Watch

_GLOBAL: Final = object()
_chosen: list[Any] = [_GLOBAL]
"""What ``choose`` was given last."""


def choose(tracer_provider: Any) -> None:
    """See ``gantrymq.tracing.use``."""
    _chosen[:] = [_GLOBAL if tracer_provider is None else tracer_provider]


def current_provider() -> Any:
    """The tracer provider for a client that is made now; None: it makes no spans."""
    (chosen,) = _chosen
    if chosen is not _GLOBAL:
        return chosen or None
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    provider = trace.get_tracer_provider()
    return None if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider) else provider


def spans_of(endpoint: Endpoint, group: str | None, *, broadcasting: bool = False) -> Watch | None:
    """What makes the spans of a client; None: nothing does. ``group``: the name that brokers know."""
    provider = current_provider()
    if provider is None:
        return None
    from gantrymq.client.tracing.spans import Spans  # not before: it imports OpenTelemetry

    return Spans(provider, endpoint, group or "", broadcasting=broadcasting)
