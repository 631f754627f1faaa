"""Every crash of one workload: the power is cut before each disk operation, with each state in which the disk may
be.
"""
