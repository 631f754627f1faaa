"""Metrics: how they are declared once, and read by everything that shows them."""
