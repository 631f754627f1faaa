"""Archived messages as rows of the sink. A data frame in, a data frame out: for batches and streams, in any session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gantrymq.message.properties import SHARDING_KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OLD_ID: Final = "REPLAYED_ID"
"""The user property of a replayed message with the id that it has in the archive. By it, a consumer recognises a
message that it had before: the sink gives new ids, because with them it recognises its own attempts."""
QUEUE: Final = ("topic", "broker_name", "queue_id")
"""Together they name the old queue of a message."""


def messages_again(archived: DataFrame) -> DataFrame:
    """The columns of the sink, without ``topic``. Body, tags, keys, flag and user properties are the old ones.

    Messages with an ordering key keep it. The others get one that names their old queue, so that those of one queue go
    to one queue.
    """
    from pyspark.sql import functions as f

    old = f.coalesce("properties", f.create_map().cast("map<string,string>"))
    # A map has a name once: a message that is replayed a second time keeps its first id.
    mark = f.create_map(f.lit(OLD_ID), f.coalesce(old[OLD_ID], "message_id"))
    others = f.map_filter(old, lambda name, _: name != OLD_ID)
    key = f.coalesce(old[SHARDING_KEY], f.concat_ws("/", *QUEUE))
    return archived.select(
        "body", "tags", "keys", "flag", key.alias("ordering_key"), f.map_concat(others, mark).alias("properties")
    )
