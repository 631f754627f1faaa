"""Data pipelines with Spark: a job is described, and run; each kind of table is a target."""
