"""Users and permissions at the remoting doors of brokers and name servers: which operation a request is, what it names,
and who signed it."""
