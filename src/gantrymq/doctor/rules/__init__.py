"""What is wrong, by what it is about: a module for each, whose ``RULES`` are functions from facts to findings."""
