"""Brokers, clients and services that are broken on purpose, and the seeds that find them."""
