"""Benchmarks: ``python -m benchmarks`` runs them; see ``--help``."""
