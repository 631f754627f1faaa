"""What consumers are built of: queue assignment, pulling, listeners in threads, progress and retries."""
