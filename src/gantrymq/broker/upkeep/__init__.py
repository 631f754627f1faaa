"""What a broker does beside answering requests."""
