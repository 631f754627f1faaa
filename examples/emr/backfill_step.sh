#!/bin/bash
# A step of an EMR cluster on EC2: the messages of a time range to a Delta table in S3. See docs/recipes.md.
#
#     backfill_step.sh s3://BUCKET/orders.toml FROM TO        times such as 2026-01-31T08:00:00Z
#
# EMR's own Spark is too old for the format (4.0 in emr-spark-8.0.0), so this brings its own, which runs on the primary node.
set -euo pipefail
job=$1 from=$2 to=$3

environment=$HOME/gantry
if [ ! -x "$environment/bin/gantry" ]; then
    python3.11 -m venv "$environment"
    "$environment/bin/pip" install --quiet 'gantrymq[spark,pipelines,delta]'
fi
aws s3 cp "$job" "$HOME/orders.toml"

# They would lead to the Spark and the Java of EMR.
unset SPARK_HOME SPARK_CONF_DIR JAVA_HOME PYSPARK_PYTHON PYTHONPATH
exec "$environment/bin/gantry" pipeline backfill "$HOME/orders.toml" --from "$from" --to "$to" --set "run.master=local[*]"
