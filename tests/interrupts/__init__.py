"""Interrupts a blocking client at every place where Python may run a signal handler, and judges what is left.

``python -m tests.interrupts --help``.
"""
