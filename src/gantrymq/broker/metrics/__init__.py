"""What a broker measures: each metric is declared here once, and HTTP, remoting and the command line read it."""
