"""The only doors to the outside world: clock, chance, disk and network. A simulation replaces these four."""
