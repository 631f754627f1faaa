"""The options of the source: declared once in table.py, read and checked by the other modules."""
