"""Messages that are delivered later than they arrive: delayed ones, timer messages, retries; and pulls that wait."""
