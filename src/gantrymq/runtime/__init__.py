"""Clock, random numbers, disk and network: everything through which the product reaches the outside world. A simulation
replaces these four.
"""
