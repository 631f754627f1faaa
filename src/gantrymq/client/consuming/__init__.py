"""The parts of consumers."""
