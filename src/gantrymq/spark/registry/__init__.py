"""Schemas from a registry of Confluent's kind: its wire format, its HTTP API, and columns of Spark in it."""
