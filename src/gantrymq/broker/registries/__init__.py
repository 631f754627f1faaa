"""The broker's data beside the log: topics, groups and offsets (durable); clients and locks (in memory)."""
