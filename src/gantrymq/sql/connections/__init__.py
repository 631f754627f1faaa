"""The way in by connections of a driver: psycopg, sqlite3 and PyMySQL."""
