"""Carries the frames of ``protocol`` over the links of ``runtime.network``."""
