import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * Load of the official client of RocketMQ 5: endpoint, topic, topic of transactions, threads, bytes of a body, seconds
 * of warming up, seconds that are measured. Two lines of JSON for each kind of work: when it is warm, and at its end.
 */
public class GrpcLoad {
    private static final ClientServiceProvider SERVICE = ClientServiceProvider.loadService();
    private static final int BATCH = 32;
    private static final int QUEUES = 8;
    private static final int SAMPLES_MAX = 1 << 18;

    /** Does one operation; how many messages it was. */
    private interface Work extends Callable<Integer> {
    }

    public static void main(String[] arguments) {
        int status = 0;
        try {
            work(arguments);
        } catch (Throwable error) {
            error.printStackTrace();
            status = 1;
        }
        System.exit(status);  // clients that are not closed keep threads
    }

    private static void work(String[] arguments) throws Exception {
        String topic = arguments[1];
        String transactions = arguments[2];
        int threads = Integer.parseInt(arguments[3]);
        byte[] body = new byte[Integer.parseInt(arguments[4])];
        double warm = Double.parseDouble(arguments[5]);
        double seconds = Double.parseDouble(arguments[6]);
        ClientConfiguration where = ClientConfiguration.newBuilder().setEndpoints(arguments[0]).enableSsl(false)
            .setRequestTimeout(Duration.ofSeconds(10)).build();
        // A new group begins at the end of each queue, so it asks before there is anything. All queues at a time:
        // Apache's proxy lets each such call wait for 5 s, whatever the client asks for.
        SimpleConsumer consumer = SERVICE.newSimpleConsumerBuilder().setClientConfiguration(where)
            .setConsumerGroup("load").setAwaitDuration(Duration.ofMillis(200))
            .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL)).build();
        List<CompletableFuture<List<MessageView>>> asked = new ArrayList<>();
        for (int number = 0; number < QUEUES; number++) {
            asked.add(consumer.receiveAsync(1, Duration.ofSeconds(10)));
        }
        for (CompletableFuture<List<MessageView>> one : asked) {
            one.get();
        }
        Producer producer = SERVICE.newProducerBuilder().setClientConfiguration(where).setTopics(topic).build();
        Message message = SERVICE.newMessageBuilder().setTopic(topic).setTag("load").setBody(body).build();
        measure("send", threads, warm, seconds, () -> {
            producer.send(message);
            return 1;
        });
        // What was sent is received; when nothing is left, the consumers wait for what one thread sends.
        Thread feeder = new Thread(() -> {
            while (!Thread.interrupted()) {
                try {
                    producer.send(message);
                } catch (Exception error) {
                    return;
                }
            }
        });
        feeder.setDaemon(true);
        feeder.start();
        measure("receive and ack", threads, warm, seconds, () -> {
            List<MessageView> got = consumer.receive(BATCH, Duration.ofSeconds(60));
            for (MessageView one : got) {
                consumer.ack(one);
            }
            return got.size();
        });
        feeder.interrupt();
        consumer.close();
        producer.close();
        Producer halves = SERVICE.newProducerBuilder().setClientConfiguration(where).setTopics(transactions)
            .setTransactionChecker(one -> TransactionResolution.COMMIT).build();
        Message half = SERVICE.newMessageBuilder().setTopic(transactions).setTag("load").setBody(body).build();
        measure("transaction", threads, warm, seconds, () -> {
            Transaction transaction = halves.beginTransaction();
            halves.send(half, transaction);
            transaction.commit();
            return 1;
        });
        halves.close();
    }

    private static void measure(String what, int threads, double warm, double seconds, Work work) throws Exception {
        AtomicLong messages = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        long began = System.nanoTime();
        long from = began + (long) (warm * 1e9);
        long until = from + (long) (seconds * 1e9);
        List<long[]> samples = new ArrayList<>();
        List<Thread> running = new ArrayList<>();
        for (int number = 0; number < threads; number++) {
            Thread thread = new Thread(() -> {
                long[] own = new long[SAMPLES_MAX];
                int count = 0;
                long now = System.nanoTime();
                while (now < until) {
                    long start = now;
                    int done = 0;
                    try {
                        done = work.call();
                    } catch (Exception error) {
                        if (start >= from) {
                            failed.incrementAndGet();
                        }
                    }
                    now = System.nanoTime();
                    if (start >= from && now < until && done > 0) {
                        messages.addAndGet(done);
                        if (count < SAMPLES_MAX) {
                            own[count++] = now - start;
                        }
                    }
                }
                synchronized (samples) {
                    samples.add(Arrays.copyOf(own, count));
                }
            });
            running.add(thread);
            thread.start();
        }
        Thread.sleep(Math.max(0, (from - System.nanoTime()) / 1_000_000));
        System.out.printf("{\"warm\": \"%s\"}%n", what);
        System.out.flush();
        for (Thread thread : running) {
            thread.join();
        }
        long[] sorted = samples.stream().flatMapToLong(Arrays::stream).sorted().toArray();
        System.out.printf(java.util.Locale.ROOT,
            "{\"what\": \"%s\", \"per_second\": %.1f, \"p50_ms\": %.2f, \"p99_ms\": %.2f, \"failed\": %d}%n",
            what, messages.get() / seconds, at(sorted, 0.5), at(sorted, 0.99), failed.get());
        System.out.flush();
    }

    private static double at(long[] sorted, double share) {
        return sorted.length == 0 ? 0 : sorted[(int) Math.round((sorted.length - 1) * share)] / 1e6;
    }
}
