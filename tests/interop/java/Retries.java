import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages that are not consumed at once, or never. */
class Retries extends Scenario {
    @Override
    void play() throws Exception {
        String topic = own("t");
        DefaultMQProducer p = producer();
        Set<String> done = ConcurrentHashMap.newKeySet();
        AtomicInteger dead = new AtomicInteger();
        Message m = message(topic, "TagA", "later", "again after the default delay");
        m.setFlag(3);
        m.putUserProperty("color", "red");
        sent("later", p.send(m));
        sent("soon", p.send(message(topic, "TagA", "soon", "0123456789".repeat(1000))));
        sent("poison", p.send(message(topic, "TagB", "poison", "never")));
        sent("straight", p.send(message(topic, "TagB", "straight", "a dead letter at once")));
        sent("fine", p.send(message(topic, "TagB", "fine", "fine")));
        DefaultMQPushConsumer c = consumer(own("g"));
        c.subscribe(topic, "TagA || TagB");
        c.setMaxReconsumeTimes(2);
        c.registerMessageListener((MessageListenerConcurrently) (ms, context) -> {
            for (MessageExt x : ms) {
                got("push", x);
                switch (x.getKeys()) {
                    case "poison":
                        dead.incrementAndGet();
                        context.setDelayLevelWhenNextConsume(1);
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    case "straight":
                        context.setDelayLevelWhenNextConsume(-1);
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    default:
                        if (!x.getKeys().equals("fine") && x.getReconsumeTimes() == 0) {
                            context.setDelayLevelWhenNextConsume(x.getKeys().equals("soon") ? 1 : 0);
                            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                        }
                        done.add(x.getKeys());
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        await("poison tried thrice", 90, () -> dead.get() >= 3);
        await("second attempts", 90, () -> done.size() >= 3);
        awaitTopic("%DLQ%" + own("g"));
        // The last send-back was on its way when the listener was called for the last time.
        Thread.sleep(500);
        c.shutdown();
        readAll("dead", "%DLQ%" + own("g"));
        p.shutdown();
    }
}
