"""A pool of workers that receive, work and acknowledge: SimpleConsumer, the 5.x way to consume.

Three workers share one topic with a single queue, which a push consumer could not share. One scan is hard: its worker
asks for more time. One worker fails: its scan comes again, to any worker.
"""

import threading

from own_server import name_servers

from gantrymq import Admin, ConsumeFromWhere, Message, Producer, SimpleConsumer

SCANS = [f"scan-{number}" for number in range(6)]
lock = threading.Lock()
read: set[str] = set()
failed_before = threading.Event()


def work(consumer: SimpleConsumer) -> None:
    while len(read) < len(SCANS):
        for message in consumer.receive(1, 2_000):  # nobody else gets it for two seconds
            scan = message.body.decode()
            if scan == "scan-3":
                consumer.change_invisible_duration(message, 60_000)  # this one takes longer
            if scan == "scan-4" and not failed_before.is_set():
                failed_before.set()
                continue  # no ack: it comes again when its two seconds are over
            consumer.ack(message)
            with lock:
                read.add(scan)
                print(f"read {scan}, attempt {message.reconsume_times + 1}")


with name_servers(__doc__) as address:
    with Admin(address) as admin:
        admin.create_topic("scans", 1)
    consumer = SimpleConsumer(
        "ocr", name_servers=address, from_where=ConsumeFromWhere.FIRST_OFFSET, await_duration_ms=1_000
    )
    with Producer("scanner", name_servers=address) as producer, consumer.subscribe("scans"):
        producer.send_batches([Message("scans", scan) for scan in SCANS])
        workers = [threading.Thread(target=work, args=[consumer]) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    print("every scan is read")
