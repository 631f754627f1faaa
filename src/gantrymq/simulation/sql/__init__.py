"""Services with local transactions under faults: gantrymq.sql on simulated databases."""
