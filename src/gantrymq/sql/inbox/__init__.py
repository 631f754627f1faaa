"""Consumers whose effect in their database happens once."""
