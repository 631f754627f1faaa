"""Histories of changes by chance, through a job with every target that applies changes."""
