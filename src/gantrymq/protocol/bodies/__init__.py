"""JSON bodies as frozen values with ``encode`` and ``decode``."""
