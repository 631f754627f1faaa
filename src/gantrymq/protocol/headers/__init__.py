"""Typed headers by family; ``registry`` is the only place where a request code meets its header."""
