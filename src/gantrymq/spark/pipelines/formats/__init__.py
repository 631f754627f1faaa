"""The formats of bodies: one module for each, all with the calls of ``port.Format``."""
