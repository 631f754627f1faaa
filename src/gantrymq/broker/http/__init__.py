"""The broker's HTTP endpoint: read-only answers as JSON, for people with curl and programs without a client."""
