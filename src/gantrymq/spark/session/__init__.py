"""Sessions of Spark that suit this connector: their Java, their Python processes, and how the package gets there."""
