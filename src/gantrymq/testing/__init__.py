"""A whole cluster in one loop, with time, randomness, disk and network from a seed, and the rules that must hold."""
