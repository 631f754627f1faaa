"""From the bytes of a pull to the columns of Spark, without a Python object for each message."""
