"""Delta tables, written by the library ``deltalake``."""
