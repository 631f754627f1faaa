"""Who records what happens to messages, and how: the hooks of a client, and OpenTelemetry's spans."""
