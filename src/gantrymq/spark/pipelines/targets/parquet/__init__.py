"""Tables of Parquet files."""
