"""Runs a job: from the topics through its batches to the targets."""
