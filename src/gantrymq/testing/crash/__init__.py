"""Every crash of one story: the power is cut before each disk operation, in each way the disk may have torn."""
