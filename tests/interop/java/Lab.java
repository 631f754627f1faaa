import java.nio.charset.StandardCharsets;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.exception.RemotingException;

/** What all drivers share: one JSON object a line on standard output, messages, waiting. */
final class Lab {
    static {
        new Shutdowns().start();
    }

    private Lab() {
    }

    /** Prints {"step": step, key: value, ...}; the rest are keys and values in turn. */
    static synchronized void step(String step, Object... rest) {
        StringBuilder line = new StringBuilder("{\"step\":").append(quoted(step));
        for (int i = 0; i + 1 < rest.length; i += 2) {
            line.append(',').append(quoted(rest[i].toString())).append(':').append(value(rest[i + 1]));
        }
        System.out.println(line.append('}'));
        System.out.flush();
    }

    private static String value(Object o) {
        if (o instanceof Scenario.Json) {
            StringBuilder map = new StringBuilder("{");
            ((Scenario.Json) o).map.forEach((k, v) -> map.append(map.length() > 1 ? "," : "").append(quoted(k)).append(':').append(quoted(v)));
            return map.append('}').toString();
        }
        return o == null || o instanceof Number || o instanceof Boolean ? String.valueOf(o) : quoted(o.toString());
    }

    private static String quoted(String s) {
        StringBuilder b = new StringBuilder("\"");
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') {
                b.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                b.append(String.format("\\u%04x", (int) c));
            } else {
                b.append(c);
            }
        }
        return b.append('"').toString();
    }

    static byte[] bytes(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] body) {
        return body == null ? null : new String(body, StandardCharsets.UTF_8);
    }

    static Message message(String topic, String tags, String keys, String body) {
        return new Message(topic, tags, keys, bytes(body));
    }

    /** Who signs, where servers have users; null: nobody. See guarded.py. */
    static RPCHook account() {
        String user = System.getProperty("lab.user");
        return user == null ? null : hook(user, System.getProperty("lab.secret"));
    }

    /** In 4.x this is in a jar of its own, which only the tests with users have. */
    static RPCHook hook(String key, String secret) {
        try {
            Class<?> credentials = Class.forName("org.apache.rocketmq.acl.common.SessionCredentials");
            Object mine = credentials.getConstructor(String.class, String.class).newInstance(key, secret);
            Class<?> signing = Class.forName("org.apache.rocketmq.acl.common.AclClientRPCHook");
            return (RPCHook) signing.getConstructor(credentials).newInstance(mine);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    static DefaultMQProducer producer(String nameServers, String group) throws Exception {
        DefaultMQProducer p = new DefaultMQProducer(group, account());
        p.setNamesrvAddr(nameServers);
        p.setSendMsgTimeout(20000);
        p.start();
        meet(p);
        return p;
    }

    /**
     * The client gives the name server 3 s to be connected, and a send has one try. While a JVM is cold and its neighbours
     * are busy that is too short now and then.
     */
    static void meet(DefaultMQProducer p) throws Exception {
        for (int attempt = 0; attempt < 20; attempt++) {
            try {
                p.fetchPublishMessageQueues("TBW102");
                return;
            } catch (Exception e) {
                Throwable cause = e;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                if (!(cause instanceof RemotingException)) {
                    return; // it answered, whatever that was
                }
                Thread.sleep(200);
            }
        }
    }

    static DefaultMQPushConsumer consumer(String nameServers, String group) throws Exception {
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(group, account(), new AllocateMessageQueueAveragely());
        c.setNamesrvAddr(nameServers);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setConsumeThreadMin(2);
        c.setConsumeThreadMax(4);
        c.setPollNameServerInterval(1000); // instead of 30 s: until it knows the retry topic, for one
        return c;
    }

    static void sent(String what, SendResult r) {
        step("sent", "what", what, "status", r.getSendStatus(), "msgId", r.getMsgId(), "offsetMsgId", r.getOffsetMsgId(),
            "queueId", r.getMessageQueue() == null ? null : r.getMessageQueue().getQueueId(), "queueOffset", r.getQueueOffset(),
            "broker", r.getMessageQueue() == null ? null : r.getMessageQueue().getBrokerName());
    }

    static void got(String who, MessageExt m) {
        step("got", "who", who, "topic", m.getTopic(), "queueId", m.getQueueId(), "queueOffset", m.getQueueOffset(), "tags", m.getTags(),
            "keys", m.getKeys(), "msgId", m.getMsgId(), "times", m.getReconsumeTimes(), "body", text(m.getBody()));
    }

    /** Waits for something to become true; says whether it did. */
    static boolean await(String what, long ms, BooleanSupplier done) throws InterruptedException {
        long end = System.currentTimeMillis() + ms;
        while (!done.getAsBoolean() && System.currentTimeMillis() < end) {
            Thread.sleep(20);
        }
        boolean reached = done.getAsBoolean();
        step(reached ? "reached" : "missed", "what", what);
        return reached;
    }

    /** Waits until the test writes a line to standard input. */
    static void awaitLine() throws Exception {
        System.in.read();
    }
}
