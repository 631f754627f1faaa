"""What a server allows its clients, each and together, and what it refused."""
