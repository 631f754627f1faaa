import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;

/** Orders stay in order: one reader, a pause, a poisonous message, a second reader that comes and the first that goes. */
class Ordered extends Scenario {
    static final int ORDERS = 4;
    private final Set<String> done = ConcurrentHashMap.newKeySet();
    private final AtomicInteger poisoned = new AtomicInteger();
    private DefaultMQProducer p;

    @Override
    void play() throws Exception {
        p = producer();
        send(0, 3);
        DefaultMQPushConsumer one = reader("one");
        one.start();
        await("first part", 60, () -> done.size() >= 3 * ORDERS);
        p.send(message(own("t"), "TagA", "poison", "poison"), (queues, m, arg) -> queues.get(0), null);
        await("poison given up", 60, () -> poisoned.get() >= 2);

        DefaultMQPushConsumer two = reader("two");
        two.start();
        await("queues shared", 90, () -> held(one) == ORDERS / 2 && held(two) == ORDERS / 2);
        send(3, 6);
        await("second part", 60, () -> done.size() >= 6 * ORDERS);

        one.shutdown();
        await("queues taken over", 90, () -> held(two) == ORDERS);
        send(6, 8);
        await("third part", 60, () -> done.size() >= 8 * ORDERS);
        two.shutdown();
        readAll("dead", "%DLQ%" + own("g"));
        p.shutdown();
    }

    private void send(int from, int to) throws Exception {
        for (int i = from; i < to; i++) {
            for (int order = 0; order < ORDERS; order++) {
                String what = order + "-" + i;
                sent(what, p.send(message(own("t"), "TagA", what, what), (queues, m, arg) -> queues.get((Integer) arg % queues.size()), order));
            }
        }
    }

    /** Queues of the topic that a consumer has and holds the locks of. */
    private long held(DefaultMQPushConsumer c) {
        return c.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().entrySet().stream()
            .filter(e -> e.getKey().getTopic().equals(own("t")) && e.getValue().isLocked() && !e.getValue().isDropped()).count();
    }

    private DefaultMQPushConsumer reader(String who) throws Exception {
        DefaultMQPushConsumer c = consumer(own("g"));
        c.setInstanceName(own(who)); // clients of one name in a JVM share their connections, and end them together
        c.setMaxReconsumeTimes(1);
        c.subscribe(own("t"), "*");
        c.registerMessageListener((MessageListenerOrderly) (ms, context) -> {
            context.setSuspendCurrentQueueTimeMillis(200);
            for (MessageExt m : ms) {
                got(who, m);
                if (m.getKeys().equals("poison")) {
                    poisoned.incrementAndGet();
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
                if (m.getKeys().equals("1-1") && m.getReconsumeTimes() == 0) {
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
                done.add(m.getKeys());
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        return c;
    }
}
