"""What a job file says, and what is wrong with it. No Spark, no I/O but the file."""
