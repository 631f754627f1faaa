"""Ready-made jobs. Run them with ``gantry pipeline NAME``, or with ``python -m`` and the name of the module."""
