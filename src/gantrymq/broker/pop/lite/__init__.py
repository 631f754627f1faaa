"""Lite topics: which client reads which of them, and what it gets (``message.lite_topics`` has their names)."""
