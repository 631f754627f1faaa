"""What a simulated cluster stands on: its loop and clock, disks, network, and the processes of a cluster."""
