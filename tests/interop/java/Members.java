import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Members of a group share the queues, whoever comes or goes. */
class Members extends Scenario {
    private final List<DefaultMQPushConsumer> members = new ArrayList<>();

    @Override
    void play() throws Exception {
        DefaultMQProducer p = producer();
        sent("first", p.send(message(own("t"), "TagA", "first", "makes the topic")));
        ConcurrentLinkedQueue<MessageExt> seen = new ConcurrentLinkedQueue<>();
        for (int i = 0; i < 3; i++) {
            DefaultMQPushConsumer c = printing("member " + i, own("g"), own("t"), "*", seen);
            c.setInstanceName(prefix + "member" + i);
            c.start();
            members.add(c);
        }
        balanced("three");
        members.remove(0).shutdown();
        balanced("two");
        for (int i = 0; i < 8; i++) {
            sent("" + i, p.send(message(own("t"), "TagA", "k" + i, "shared " + i)));
        }
        // What a member had not confirmed when another one came or went comes twice, so messages are not counted.
        await("all consumed", 60, () -> seen.stream().map(MessageExt::getKeys).distinct().count() >= 9);
        members.remove(0).shutdown();
        balanced("one");
        members.remove(0).shutdown();
        step("counts", "messages", seen.size());
        p.shutdown();
    }

    /** Waits until every queue has exactly one reader and all readers have some. */
    private void balanced(String what) throws Exception {
        await(what, 60, () -> {
            Set<Integer> all = new TreeSet<>();
            int sum = 0;
            for (DefaultMQPushConsumer c : members) {
                Set<Integer> own = queues(c);
                if (own.isEmpty()) {
                    return false;
                }
                all.addAll(own);
                sum += own.size();
            }
            return sum == 4 && all.size() == 4;
        });
    }

    private Set<Integer> queues(DefaultMQPushConsumer c) {
        Set<Integer> found = new TreeSet<>();
        for (MessageQueue q : c.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) {
            if (q.getTopic().equals(own("t"))) {
                found.add(q.getQueueId());
            }
        }
        return found;
    }
}
