"""The parts of producers."""
