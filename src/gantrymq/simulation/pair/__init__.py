"""A primary and its replica, and an operator who lets them change places, in a simulated cluster with faults."""
