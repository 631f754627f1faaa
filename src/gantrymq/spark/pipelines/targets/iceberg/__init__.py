"""Iceberg tables, written by the library ``pyiceberg``."""
