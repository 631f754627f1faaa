"""Where Spark's packages are not installed, nothing here can run: the core works without them."""

from __future__ import annotations

from importlib.util import find_spec

from hypothesis import settings

settings.register_profile("gantrymq", deadline=None, print_blob=True)
settings.load_profile("gantrymq")

if any(find_spec(name) is None for name in ("pyspark", "pyarrow", "numpy")):
    collect_ignore_glob = ["test_*.py", "pipelines/test_*.py"]
