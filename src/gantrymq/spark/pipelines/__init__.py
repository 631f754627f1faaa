"""Ready-made jobs over the format ``rocketmq``; each also runs as ``gantry pipeline NAME`` and ``python -m``."""
