"""Messages, their properties, queues and names, as values. Neither I/O nor wire format is here."""
