"""A whole cluster in one loop, with time, chance, disk and network from a seed: it tests our servers and clients."""
