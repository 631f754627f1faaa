"""One append-only log and everything that is derived from it, in Apache's bytes."""
