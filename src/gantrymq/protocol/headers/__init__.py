"""Typed headers of requests and answers. ``registry`` tells which header class belongs to which request code."""
