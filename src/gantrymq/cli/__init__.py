"""The command ``gantry``."""
