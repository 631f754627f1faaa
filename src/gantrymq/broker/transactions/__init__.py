"""The transactions of a broker: half messages are stored, ended, checked and explained."""
