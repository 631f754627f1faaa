"""The broker: stores, serves and checks.

``broker.py`` puts it together, ``request_table.py`` is its table of contents.
"""
