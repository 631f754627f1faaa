import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;

/** Every member of a broadcasting group gets everything. */
class Broadcast extends Scenario {
    @Override
    void play() throws Exception {
        DefaultMQProducer p = producer();
        for (int i = 0; i < 4; i++) {
            sent("early " + i, p.send(message(own("t"), "TagA", "early" + i, "early " + i)));
        }
        ConcurrentLinkedQueue<MessageExt> seen = new ConcurrentLinkedQueue<>();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (String who : new String[] {"one", "two"}) {
            DefaultMQPushConsumer c = printing(who, own("g"), own("t"), "*", seen);
            c.setInstanceName(own(who)); // clients of one name in a JVM share their connections, and end them together
            setEnum(c, "setMessageModel", "BROADCASTING");
            c.start();
            consumers.add(c);
        }
        await("early ones", 60, () -> seen.size() >= 8);
        for (int i = 0; i < 4; i++) {
            sent("live " + i, p.send(message(own("t"), "TagA", "live" + i, "live " + i)));
        }
        await("live ones", 60, () -> seen.size() >= 16);
        consumers.forEach(DefaultMQPushConsumer::shutdown);
        p.shutdown();
    }
}
