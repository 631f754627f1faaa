"""What a start does with what it finds on the disk."""
