import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Half messages and their ends. What a message's key says is what happens to it. */
class Transactions extends Scenario {
    private final Map<String, AtomicInteger> checks = new ConcurrentHashMap<>();

    @Override
    void play() throws Exception {
        String topic = own("t");
        TransactionMQProducer p = producer(false);
        Message m = message(topic, "TagA", "commit", "committed at once");
        m.putUserProperty("color", "green");
        m.setFlag(5);
        send(p, m);
        send(p, message(topic, "TagA", "rollback", "rolled back at once"));
        send(p, message(topic, "TagA", "commit-big", "0123456789".repeat(1000)));
        send(p, message(topic, "TagB", "check-commit", "unknown, then committed"));
        send(p, message(topic, "TagB", "check-rollback", "unknown, then rolled back"));
        send(p, message(topic, "TagB", "second-commit", "unknown at the first check, too"));
        send(p, message(topic, "TagB", "throws", "the local transaction fails"));
        m = message(topic, "TagB", "immune-commit", "has its own time of immunity");
        m.putUserProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", "5");
        send(p, m);
        for (String key : new String[] {"check-commit", "check-rollback", "throws", "immune-commit", "victim"}) {
            await("check of " + key, 90, () -> checks.containsKey(key));
        }
        await("second check", 90, () -> checks.containsKey("second-commit") && checks.get("second-commit").get() >= 2);
        // The answers to checks are one-way; the last one is certain to be executed when one more send is answered.
        sent("plain", p.send(message(topic, "TagC", "plain", "an ordinary message in between")));
        Thread.sleep(1000);
        readAll("reader", topic);
        p.shutdown();
    }

    TransactionMQProducer producer(boolean dies) throws Exception {
        TransactionMQProducer p = new TransactionMQProducer(own("g"), Lab.account());
        p.setNamesrvAddr(nameServers);
        p.setSendMsgTimeout(20000);
        p.setTransactionListener(new TransactionListener() {
            @Override public LocalTransactionState executeLocalTransaction(Message m, Object arg) {
                step("local", "key", m.getKeys(), "transactionId", m.getTransactionId(), "arg", arg);
                if (dies) {
                    Runtime.getRuntime().halt(9);
                }
                if (m.getKeys().equals("throws")) {
                    throw new IllegalStateException("the local transaction fails");
                }
                return m.getKeys().startsWith("commit") ? LocalTransactionState.COMMIT_MESSAGE
                    : m.getKeys().equals("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
            }

            @Override public LocalTransactionState checkLocalTransaction(MessageExt m) {
                int n = checks.computeIfAbsent(m.getKeys(), key -> new AtomicInteger()).incrementAndGet();
                step("check", "key", m.getKeys(), "n", n, "times", m.getProperty("TRANSACTION_CHECK_TIMES"), "transactionId", m.getTransactionId(),
                    "msgId", m.getMsgId(), "topic", m.getTopic(), "body", Lab.text(m.getBody()));
                if (m.getKeys().equals("second-commit") && n == 1) {
                    return LocalTransactionState.UNKNOW;
                }
                return m.getKeys().equals("check-rollback") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        p.start();
        Lab.meet(p);
        return p;
    }

    private void send(TransactionMQProducer p, Message m) throws Exception {
        TransactionSendResult r = p.sendMessageInTransaction(m, "arg of " + m.getKeys());
        step("sent", "what", m.getKeys(), "status", r.getSendStatus(), "state", r.getLocalTransactionState(), "msgId", r.getMsgId(),
            "transactionId", r.getTransactionId());
    }
}
