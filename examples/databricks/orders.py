# Databricks notebook source
# Brings the messages of a topic to a table, and ends. Run it as a job, for example every ten minutes.
# The compute needs Databricks Runtime 19 or later (Spark 4.2), and the library `gantrymq`; see docs/recipes.md.

# COMMAND ----------

NAME_SERVERS = "rocketmq.internal:9876"
TABLE = "main.shop.orders"
CHECKPOINT = "/Volumes/main/shop/checkpoints/orders"

# COMMAND ----------

from pyspark.sql import functions as f

from gantrymq.spark import register

register(spark)  # the session of the notebook

# COMMAND ----------

messages = (
    spark.readStream.format("rocketmq")
    .option("nameServers", NAME_SERVERS)
    .option("subscribe", "orders-paid")
    .option("startingOffsets", "earliest")
    .option("columns", "broker_name,queue_id,queue_offset,body")
    .option("maxBytesPerTrigger", "256m")
    .load()
)
order = f.from_json(f.col("body").cast("string"), "order_id string, user_id string, amount_cents bigint")
orders = messages.withColumn("order", order).select("order.*", "broker_name", "queue_id", "queue_offset")

# COMMAND ----------

# availableNow ends when everything is read that was in the topic at the start. The next run goes on there.
query = orders.writeStream.option("checkpointLocation", CHECKPOINT).trigger(availableNow=True).toTable(TABLE)
query.awaitTermination()
