"""One local transaction with messages: who carries out its steps, and who answers for it. Knows no library."""
