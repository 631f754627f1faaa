"""Decisions about half messages as tables: facts in, decision out."""
