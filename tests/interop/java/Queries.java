import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Finding messages again: by id, key, unique key and time. */
class Queries extends Scenario {
    @Override
    void play() throws Exception {
        String topic = own("t");
        DefaultMQProducer p = producer();
        sent("warm-up", p.send(message(topic, "TagW", "warm-up", "makes the topic")));
        MessageQueue any = p.fetchPublishMessageQueues(topic).get(0);
        MessageQueue queue = new MessageQueue(topic, any.getBrokerName(), 3);
        long before = p.maxOffset(queue);
        List<SendResult> results = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            results.add(p.send(message(topic, "TagA", "q" + i + " common", "query " + i), queue));
            sent("" + i, results.get(i));
            Thread.sleep(30);
        }
        await("index", 30, () -> count(p, topic, "common") == 4);
        found("offset id", p.viewMessage(topic, results.get(0).getOffsetMsgId()));
        found("unique key", p.viewMessage(topic, results.get(1).getMsgId()));
        for (String key : new String[] {"common", "q2", results.get(3).getMsgId(), "nothing"}) {
            attempt("by key " + (key.length() > 10 ? "that is unique" : key), () -> {
                QueryResult r = p.queryMessage(topic, key, 32, 0, System.currentTimeMillis() + 10000);
                List<String> bodies = new ArrayList<>();
                r.getMessageList().forEach(m -> bodies.add(Lab.text(m.getBody())));
                bodies.sort(null);
                return String.join(",", bodies);
            });
        }
        attempt("two of a key", () -> p.queryMessage(topic, "common", 2, 0, System.currentTimeMillis() + 10000).getMessageList().size());
        attempt("key of another time", () -> p.queryMessage(topic, "common", 32, 1000, 2000).getMessageList().size());
        attempt("wrong offset id", () -> p.viewMessage(topic, results.get(0).getOffsetMsgId().substring(0, 16) + "00000000FFFFFF00"));
        attempt("absent unique key", () -> p.viewMessage(topic, results.get(0).getMsgId().substring(0, 28) + "FFFE"));
        long second = p.viewMessage(topic, results.get(1).getOffsetMsgId()).getStoreTimestamp();
        offset("at the second", p.searchOffset(queue, second) - before);
        offset("just after the second", p.searchOffset(queue, second + 1) - before);
        offset("just before the second", p.searchOffset(queue, second - 1) - before);
        offset("in the future", p.searchOffset(queue, System.currentTimeMillis() + 100000) - before);
        offset("long ago", p.searchOffset(queue, 0) - before);
        offset("max", p.maxOffset(queue) - before);
        offset("min", p.minOffset(queue) - before);
        MessageQueue empty = new MessageQueue(topic, any.getBrokerName(), 2);
        if (p.maxOffset(empty) == 0) {
            offset("in an empty queue", p.searchOffset(empty, second));
            offset("earliest of an empty queue", p.earliestMsgStoreTime(empty));
        }
        step("outcome", "what", "earliest store time", "value", p.earliestMsgStoreTime(queue) > 0 && p.earliestMsgStoreTime(queue) < second);
        p.shutdown();
    }

    private void offset(String what, long offset) {
        step("offset", "what", what, "offset", offset);
    }

    private void found(String what, MessageExt m) {
        step("outcome", "what", what, "value", Lab.text(m.getBody()));
    }

    private static int count(DefaultMQProducer p, String topic, String key) {
        try {
            return p.queryMessage(topic, key, 32, 0, System.currentTimeMillis() + 10000).getMessageList().size();
        } catch (Exception notYet) {
            return 0;
        }
    }
}
