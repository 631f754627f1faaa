"""What happened, and the rules that it must keep: the history and its checkers."""
