"""What waits, and clocks that step: every kind of wait of a broker, judged by how long it lasts."""
