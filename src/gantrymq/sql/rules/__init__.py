"""The order of a local transaction, and what may be concluded from rows. Pure: queries and steps are values."""
