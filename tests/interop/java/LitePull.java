import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The lite pull consumer: subscribed and assigned. */
class LitePull extends Scenario {
    private int polled;

    @Override
    void play() throws Exception {
        String topic = own("t");
        DefaultMQProducer p = producer();
        long middle = 0;
        for (int i = 0; i < 16; i++) {
            if (i == 8) {
                Thread.sleep(50);
                middle = System.currentTimeMillis();
                Thread.sleep(50);
            }
            Message m = message(topic, i < 12 ? "TagA" : "TagB", "k" + i, "lite " + i);
            sent("" + i, p.send(m, new MessageQueue(topic, "broker-a", i % 4)));
        }
        subscribed(topic);
        assigned(topic, middle);
        p.shutdown();
    }

    private DefaultLitePullConsumer lite(String group) {
        DefaultLitePullConsumer c = new DefaultLitePullConsumer(group, Lab.account());
        c.setNamesrvAddr(nameServers);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setAutoCommit(false);
        c.setPullThreadNums(2);
        return c;
    }

    /** Polls until that many more messages came; then once more, so that too many are seen. */
    private void poll(DefaultLitePullConsumer c, String who, int wanted) throws Exception {
        int goal = polled + wanted;
        await(who, 60, () -> {
            take(c, who, 200);
            return polled >= goal;
        });
        take(c, who, 300);
    }

    private void take(DefaultLitePullConsumer c, String who, long ms) {
        for (MessageExt m : c.poll(ms)) {
            got(who, m);
            polled++;
        }
    }

    private void subscribed(String topic) throws Exception {
        String group = own("sub");
        DefaultLitePullConsumer c = lite(group);
        c.subscribe(topic, "TagA");
        c.start();
        poll(c, "subscribed", 12);
        c.commitSync();
        for (MessageQueue q : sorted(c.assignment())) {
            step("committed", "who", "subscribed", "queueId", q.getQueueId(), "offset", c.committed(q));
        }
        c.shutdown();
        // Goes on where the first one was.
        DefaultMQProducer p = Lab.producer(nameServers, own("p2"));
        sent("more", p.send(message(topic, "TagA", "more", "for the next one"), new MessageQueue(topic, "broker-a", 3)));
        p.shutdown();
        c = lite(group);
        c.setAutoCommit(true);
        c.setAutoCommitIntervalMillis(1000);
        c.subscribe(topic, "TagA");
        c.start();
        poll(c, "goes on", 1);
        c.shutdown();
    }

    private void assigned(String topic, long middle) throws Exception {
        DefaultLitePullConsumer c = lite(own("assign"));
        c.start();
        List<MessageQueue> queues = sorted(c.fetchMessageQueues(topic)).subList(0, 2);
        c.assign(queues);
        MessageQueue first = queues.get(0);
        MessageQueue second = queues.get(1);
        poll(c, "assigned", 8);
        c.seekToBegin(first);
        poll(c, "from the beginning", 4);
        Long at = c.offsetForTimestamp(second, middle);
        step("offset", "what", "of the middle", "offset", at);
        c.seek(second, at);
        poll(c, "from the middle", 2);
        c.pause(Collections.singletonList(second));
        c.seek(second, 0);
        c.seek(first, 3);
        poll(c, "paused", 1);
        c.resume(Collections.singletonList(second));
        poll(c, "resumed", 4);
        c.seekToEnd(first);
        take(c, "at the end", 300);
        c.commitSync();
        for (MessageQueue q : queues) {
            step("committed", "who", "assigned", "queueId", q.getQueueId(), "offset", c.committed(q));
        }
        step("offset", "what", "in the future", "offset", c.offsetForTimestamp(first, System.currentTimeMillis() + 3600000));
        step("offset", "what", "long ago", "offset", c.offsetForTimestamp(first, 1000L));
        c.shutdown();
    }

    private static List<MessageQueue> sorted(Collection<MessageQueue> queues) {
        List<MessageQueue> all = new ArrayList<>(queues);
        Collections.sort(all);
        return all;
    }
}
