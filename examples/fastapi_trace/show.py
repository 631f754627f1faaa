"""``python show.py``: sends one request to the shop and prints its trace, from HTTP to the row of the consumer.

The broker, the shop and the consumer run inside of this process, so nothing has to be started.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence

from fastapi.testclient import TestClient
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from telemetry import set_up

from gantrymq.testing import LocalCluster


def tree(spans: Sequence[ReadableSpan]) -> list[str]:
    """The spans below their parents, in the order in which they began, with their kinds."""
    known = {span.context.span_id for span in spans}
    lines: list[str] = []

    def add(parent: int | None, depth: int) -> None:
        for span in sorted(spans, key=lambda one: one.start_time or 0):
            above = span.parent.span_id if span.parent is not None and span.parent.span_id in known else None
            if above == parent:
                indent = "   " * (depth - 1) + "└─ " if depth else ""
                lines.append(f"{indent + span.name:44}{span.kind.name.lower()}")
                add(span.context.span_id, depth + 1)

    add(None, 0)
    return lines


def recorded(order_id: str) -> Sequence[ReadableSpan]:
    """Order something; returns the spans when it is shipped."""
    exporter = InMemorySpanExporter()
    set_up(SimpleSpanProcessor(exporter))
    import shop  # after the set-up, as in a service

    with LocalCluster() as cluster, shop.shipping(), TestClient(shop.app) as client:
        client.post(f"/orders/{order_id}").raise_for_status()
        cluster.wait_until(lambda: any(span.name == "process orders" for span in exporter.get_finished_spans()))
    return exporter.get_finished_spans()


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SHOP_URL"] = f"sqlite:///{directory}/shop.db"
        os.environ["SHIPPING_URL"] = f"sqlite:///{directory}/shipping.db"
        print("\n".join(tree(recorded("o-1"))))


if __name__ == "__main__":
    main()
