"""The topics that rows name, as brokers know them."""

from __future__ import annotations

import pyarrow as pa

from gantrymq.client.connection.namespaces import with_namespace


def in_namespace(batch: pa.RecordBatch, column: int, namespace: str) -> pa.RecordBatch:
    """The rows with the namespace before the topics in a column. Each topic is looked at once."""
    named = batch.column(column).dictionary_encode()
    there = [topic and with_namespace(namespace, topic) for topic in named.dictionary.to_pylist()]
    topics = pa.array(there, named.dictionary.type).take(named.indices)
    return batch.set_column(column, batch.schema.field(column), topics)
