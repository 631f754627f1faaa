"""The same as first_message.py by RocketMQ's own means: a listener that runs the local transaction.

``gantrymq.sql`` writes such a listener for you. This one answers UNKNOWN when it finds no row, because the local
transaction may still be running; see gantrymq.DecisiveListener for how a checker may answer ROLLBACK.
"""

import sqlite3

from gantrymq import LocalTransactionState, Message, PushConsumer, TransactionProducer

SERVER = "127.0.0.1:9876"  # python3 run.py gantry server
orders = sqlite3.connect("orders.db", check_same_thread=False)
orders.execute("CREATE TABLE IF NOT EXISTS paid (order_id, transaction_id)")


class PayOrder:
    def execute_local_transaction(self, message, order_id):  # 2. your database transaction
        with orders:
            orders.execute("INSERT INTO paid VALUES (?, ?)", (order_id, message.transaction_id))
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, message):  # only when the broker has to ask how it ended
        found = orders.execute("SELECT 1 FROM paid WHERE transaction_id = ?", (message.transaction_id,)).fetchone()
        return LocalTransactionState.COMMIT if found else LocalTransactionState.UNKNOWN


def ship(messages):  # 4. another service
    for message in messages:
        print("ship the order", message.body.decode())


with TransactionProducer("order-service", name_servers=SERVER, listener=PayOrder()) as producer:
    result = producer.send_in_transaction(Message("orders-paid", b"o-1"), "o-1")  # 1. and 3.
    print(result.state.name)

with PushConsumer("shipping", name_servers=SERVER, listener=ship).subscribe("orders-paid"):
    input("Press Enter to stop.\n")
