"""What a program guesses about the place where it runs. Nothing else in the package guesses.

Containers lack what a login has: a home directory, a name of the user, a default route, a temporary directory that can
be written. Each guess therefore has a function here that returns the right thing or raises ConfigError, whose sentence
says what to set instead. docs/operations.md#what-is-guessed lists them, and a test compares the two lists.
"""
