"""Recovery: what a start does with the files that it finds."""
