"""Spans in memory: what a test asks of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gantrymq import tracing


class Recorded:
    """The spans of clients that were made meanwhile, and of the test itself."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def names(self) -> list[str]:
        return sorted(span.name for span in self.all())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        found = self.named(name)
        assert len(found) == 1, (name, self.names())
        return found[0]

    def parent(self, span: ReadableSpan) -> str | None:
        """The name of its parent, if that ended, too."""
        if span.parent is None:
            return None
        return next((one.name for one in self.all() if one.context.span_id == span.parent.span_id), "not here")

    def linked(self, span: ReadableSpan) -> list[str]:
        ids = {one.context.span_id: one.name for one in self.all()}
        return [ids.get(link.context.span_id, "not here") for link in span.links]

    def traces(self) -> set[int]:
        return {span.context.trace_id for span in self.all()}


@contextmanager
def recording() -> Iterator[Recorded]:
    recorded = Recorded()
    tracing.use(recorded.provider)
    try:
        yield recorded
    finally:
        tracing.use(None)


def of(span: ReadableSpan, *names: str) -> list[Any]:
    return [(span.attributes or {}).get(name) for name in names]
