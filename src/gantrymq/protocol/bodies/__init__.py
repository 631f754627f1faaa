"""JSON bodies of requests and answers, as frozen values with ``encode`` and ``decode``."""
