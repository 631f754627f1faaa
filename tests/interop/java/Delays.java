import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages that arrive later, by delay level. */
class Delays extends Scenario {
    @Override
    void play() throws Exception {
        DefaultMQProducer p = producer();
        ConcurrentLinkedQueue<MessageExt> seen = new ConcurrentLinkedQueue<>();
        for (int level = 0; level <= 2; level++) {
            Message m = message(own("t"), "TagD", "level" + level, "level " + level);
            m.setDelayTimeLevel(level);
            m.putUserProperty("color", "blue");
            sent("level " + level, p.send(m));
        }
        DefaultMQPushConsumer c = printing("push", own("g"), own("t"), "TagD", seen);
        c.start();
        await("all", 60, () -> seen.size() >= 3);
        c.shutdown();
        p.shutdown();
    }
}
