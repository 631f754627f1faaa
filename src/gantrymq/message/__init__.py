"""What a message is: values only, no I/O, no wire format."""
