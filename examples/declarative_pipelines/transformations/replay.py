"""replay: what is new in the archive goes to another topic, each message once, by the sink of the format rocketmq."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from gantrymq.spark.pipelines.ready_made.replay_columns import messages_again

spark = SparkSession.active()
TARGET = {"nameServers": spark.conf.get("spark.shop.nameServers"), "topic": spark.conf.get("spark.shop.replayTo")}

# On Apache's brokers, add "deliveryGuarantee": "at_least_once".
dp.create_sink("replayed", "rocketmq", TARGET)


@dp.append_flow(target="replayed")
def replay() -> DataFrame:
    return messages_again(spark.readStream.table("archive"))
