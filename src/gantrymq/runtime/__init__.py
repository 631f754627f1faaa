"""The only doors to the outside world: clock, randomness, disk and network. A simulation replaces these four."""
