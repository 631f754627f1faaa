"""The parts that producers are made of."""
