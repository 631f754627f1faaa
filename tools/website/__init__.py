"""The documentation site: built by MkDocs from ``docs/``, and checked. ``python3 run.py docs``."""
