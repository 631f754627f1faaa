"""What producers are built of: choosing queues, repeating sends, encoding frames, check-backs, replies and traces."""
