"""A whole cluster in one loop, with time, chance, disk and network from a seed, and what must hold in it."""
