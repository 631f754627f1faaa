"""What a broker knows beside its log: topics, groups, offsets (durable); clients and locks (as long as it runs)."""
