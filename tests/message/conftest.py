"""Random tests: no time limit for a single example (the machine may be busy), and a failing one can be repeated."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("gantrymq", deadline=None, print_blob=True)
settings.load_profile("gantrymq")
