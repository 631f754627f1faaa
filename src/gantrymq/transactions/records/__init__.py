"""The records of transactions in the log: values and their bytes."""
