"""The set-up of OpenTelemetry, once for each process, before any client is made.

FastAPI and GantryMQ find the tracer provider by themselves. For the statements of SQLAlchemy, install
opentelemetry-instrumentation-sqlalchemy; the few lines here do the same for this example.
"""

from __future__ import annotations

from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from sqlalchemy import event
from sqlalchemy.engine import Engine

tracer = trace.get_tracer("shop")


def set_up(processor: SpanProcessor) -> None:
    """In a service: ``BatchSpanProcessor(OTLPSpanExporter())``."""
    provider = TracerProvider()
    provider.add_span_processor(processor)
    trace.set_tracer_provider(provider)


def trace_statements(engine: Engine) -> None:
    """One span for each statement about a table of ours; those of gantrymq's own tables are left out."""

    @event.listens_for(engine, "before_cursor_execute")
    def begin(conn: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        words = statement.split()
        if words[0] in ("INSERT", "UPDATE") and "gantrymq_" not in statement:
            table = words[2 if words[0] == "INSERT" else 1].split("(")[0]
            context.span = tracer.start_span(f"{words[0]} {table}", kind=trace.SpanKind.CLIENT)

    @event.listens_for(engine, "after_cursor_execute")
    def end(conn: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        if hasattr(context, "span"):
            context.span.end()
