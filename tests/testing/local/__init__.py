"""Tests of gantrymq.testing.local."""
