import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** What the client makes of a listener that says nothing, and of a slow one: name servers, prefix. */
public class Checks {
    private static final int SILENT_TIMES = 3;
    private static final long SLOW_MS = 4000;
    private static final ConcurrentHashMap<String, AtomicInteger> times = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        TransactionMQProducer p = new TransactionMQProducer(args[1] + "_p", Lab.account());
        p.setNamesrvAddr(args[0]);
        p.setSendMsgTimeout(20000);
        p.setTransactionListener(new TransactionListener() {
            @Override public LocalTransactionState executeLocalTransaction(Message m, Object arg) {
                return LocalTransactionState.UNKNOW;
            }

            @Override public LocalTransactionState checkLocalTransaction(MessageExt m) {
                int count = times.computeIfAbsent(m.getKeys(), k -> new AtomicInteger()).incrementAndGet();
                Lab.step("check", "key", m.getKeys(), "count", count, "at", System.currentTimeMillis());
                if (m.getKeys().equals("silent") && count <= SILENT_TIMES) {
                    return null;
                }
                if (m.getKeys().equals("slow")) {
                    try {
                        Thread.sleep(SLOW_MS);
                    } catch (InterruptedException e) {
                        throw new IllegalStateException(e);
                    }
                    Lab.step("slow check ends", "at", System.currentTimeMillis());
                }
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        p.start();
        Lab.meet(p);
        send(p, args[1], "silent");
        await(() -> count("silent") > SILENT_TIMES);
        send(p, args[1], "slow");
        await(() -> count("slow") > 0);
        send(p, args[1], "behind");
        await(() -> count("behind") > 0);
        Lab.step("done");
        p.shutdown();
    }

    private static void send(TransactionMQProducer p, String prefix, String key) throws Exception {
        p.sendMessageInTransaction(Lab.message(prefix + "_t", "TagA", key, key), null);
        Lab.step("sent", "key", key, "at", System.currentTimeMillis());
    }

    private static int count(String key) {
        return times.getOrDefault(key, new AtomicInteger()).get();
    }

    private static void await(java.util.function.BooleanSupplier holds) throws InterruptedException {
        long end = System.currentTimeMillis() + 60000;
        while (!holds.getAsBoolean() && System.currentTimeMillis() < end) {
            Thread.sleep(20);
        }
    }
}
