"""What is in the user's database: the two tables, their statements in each dialect, and how errors are read. Pure."""
