import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.List;
import java.util.ArrayList;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;

/** Groups that want some tags of a topic. "Aa" and "BB" have one hash. */
class Filters extends Scenario {
    @Override
    void play() throws Exception {
        String topic = own("t");
        DefaultMQProducer p = producer();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        ConcurrentLinkedQueue<MessageExt> seen = new ConcurrentLinkedQueue<>();
        for (int round = 0; round < 2; round++) {
            for (String tag : new String[] {"Aa", "BB", "\u6807\u7b7e", "TagX"}) {
                sent(tag, p.send(message(topic, tag, tag + round, tag)));
            }
            sent("none", p.send(message(topic, null, "none" + round, "none")));
            if (round == 0) {
                for (String tags : new String[] {"Aa", "BB || \u6807\u7b7e", "*", "TagNobodyHas"}) {
                    DefaultMQPushConsumer c = printing(tags, own("g" + consumers.size()), topic, tags, seen);
                    c.start();
                    consumers.add(c);
                }
                await("first round", 60, () -> seen.size() >= 1 + 2 + 5);
            }
        }
        await("second round", 60, () -> seen.size() >= 2 * (1 + 2 + 5));
        Thread.sleep(300);
        consumers.forEach(DefaultMQPushConsumer::shutdown);
        p.shutdown();
    }
}
