"""Ready-made Spark jobs. Run them with ``gantry pipeline NAME`` or ``python -m gantrymq.spark.pipelines.<module>``."""
