"""Backups of a store directory, also while its broker runs, and what is made of them: see the README of this folder."""
