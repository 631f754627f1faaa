"""The parts that consumers are made of."""
