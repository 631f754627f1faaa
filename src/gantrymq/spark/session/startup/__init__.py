"""A folder that Spark's Python processes have on their PYTHONPATH: they run its ``sitecustomize`` when they start."""
