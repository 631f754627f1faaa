"""What clients count, and how a program reads the sum of all clients of its process."""
