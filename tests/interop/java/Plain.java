import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** The smallest round: name servers, topic, group, count. Sends that many and consumes them. */
public class Plain {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int count = Integer.parseInt(args[3]);
        DefaultMQProducer p = Lab.producer(args[0], args[2] + "_p");
        for (int i = 0; i < count; i++) {
            Lab.sent("plain " + i, p.send(Lab.message(topic, "TagA", "key" + i, "body " + i)));
        }
        DefaultMQPushConsumer c = Lab.consumer(args[0], args[2]);
        c.subscribe(topic, "*");
        java.util.concurrent.atomic.AtomicInteger seen = new java.util.concurrent.atomic.AtomicInteger();
        c.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(m -> Lab.got("push", m));
            seen.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        Lab.await("all", 60000, () -> seen.get() >= count);
        c.shutdown();
        p.shutdown();
        System.exit(0);
    }
}
