"""Three brokers elect their primary, and machines, lines and etcd fail."""
