"""The places a job writes to: one module for each kind, all with the calls of ``port.Writer``."""
