"""Consumer groups under faults: their programs, the faults, a run."""
