"""The way in by SQLAlchemy: engines and sessions."""
