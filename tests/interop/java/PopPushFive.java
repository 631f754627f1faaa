import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/**
 * A push consumer in POP mode: name servers, topic, group, count. Bodies say what becomes of a message: "ok ..." is consumed, "later"
 * is refused the first time, "silent" is held past its invisible time the first time, "poison" each time.
 * Ends when a line comes on standard input.
 */
public class PopPushFive {
    private static final long HOLD_MS = 5500;

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int count = Integer.parseInt(args[3]);
        DefaultMQPushConsumer c = Lab.consumer(args[0], args[2]);
        c.setConsumeThreadMin(8);
        c.setConsumeThreadMax(8);
        c.setClientRebalance(false);
        c.setPopInvisibleTime(5000);
        c.setPopBatchNums(4);
        c.subscribe(topic, "Good || Bad");
        ConcurrentHashMap<String, Integer> done = new ConcurrentHashMap<>();
        c.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            boolean refused = false;
            for (var m : messages) {
                String body = Lab.text(m.getBody());
                boolean first = m.getReconsumeTimes() == 0;
                Lab.step("got", "body", body, "times", m.getReconsumeTimes(), "topic", m.getTopic(), "pop", m.getProperty("POP_CK") != null);
                if (body.equals("poison") || body.equals("silent") && first) {
                    sleep();
                } else if (body.equals("later") && first) {
                    refused = true;
                } else {
                    done.put(body, m.getReconsumeTimes());
                }
            }
            return refused ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        DefaultMQProducer p = Lab.producer(args[0], args[2] + "_p");
        p.send(Lab.message(topic, "Bad", "k", "poison"));
        p.send(Lab.message(topic, "Bad", "k", "silent"));
        p.send(Lab.message(topic, "Bad", "k", "later"));
        p.send(Lab.message(topic, "Other", "k", "not wanted"));
        for (int i = 0; i < count; i++) {
            Lab.sent("ok " + i, p.send(Lab.message(topic, "Good", "key" + i, "ok " + i)));
        }
        Lab.await("all", 90000, () -> done.size() >= count + 2);
        Lab.awaitLine();
        c.shutdown();
        p.shutdown();
        System.exit(0);
    }

    private static void sleep() {
        try {
            Thread.sleep(HOLD_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
