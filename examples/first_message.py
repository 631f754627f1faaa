import sqlite3

from gantrymq import Message, PushConsumer
from gantrymq.sql import Transactions

SERVER = "127.0.0.1:9876"  # python3 run.py gantry server


def ship(messages):  # 4. another service
    for message in messages:
        print("ship the order", message.body.decode())


transactions = Transactions("order-service", lambda: sqlite3.connect("orders.db"), name_servers=SERVER)
transactions.create_table()

with transactions.begin() as tx:
    tx.send(Message("orders-paid", "o-1"))  # 1.
    tx.execute("CREATE TABLE IF NOT EXISTS paid (order_id)")
    tx.execute("INSERT INTO paid VALUES ('o-1')")  # 2.
print("the order o-1 is paid")  # 3. has happened, too

with PushConsumer("shipping", name_servers=SERVER, listener=ship).subscribe("orders-paid"):
    input("Press Enter to stop.\n")
