"""The transactions of a broker: half messages taken in, ended, checked and explained."""
