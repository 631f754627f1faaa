import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullCallback;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageQueue;

/** The plain pull consumer. */
class Pulls extends Scenario {
    @Override
    void play() throws Exception {
        String topic = own("t");
        DefaultMQProducer p = producer();
        sent("first", p.send(message(topic, "TagA", "warm-up", "makes the topic")));
        MessageQueue q = null;
        for (MessageQueue each : p.fetchPublishMessageQueues(topic)) {
            q = each.getQueueId() == 3 ? each : q;
        }
        MessageQueue queue = new MessageQueue(topic, q.getBrokerName(), 3);
        DefaultMQPullConsumer c = puller(own("g"));
        long before = c.maxOffset(queue);
        for (int i = 0; i < 6; i++) {
            sent("" + i, p.send(message(topic, i % 2 == 0 ? "TagA" : "TagB", "k" + i, "pull " + i), queue));
        }
        step("queues", "count", c.fetchSubscribeMessageQueues(topic).size());
        pulled("all", before, c.pull(queue, "*", before, 32));
        pulled("three", before, c.pull(queue, "*", before, 3));
        pulled("by tag", before, c.pull(queue, "TagB", before, 32));
        pulled("no such tag", before, c.pull(queue, "TagNobodyHas", before, 32));
        pulled("at the end", before, c.pull(queue, "*", before + 6, 32));
        pulled("beyond the end", before, c.pull(queue, "*", before + 100, 32));
        CountDownLatch answered = new CountDownLatch(2);
        PullCallback callback = new PullCallback() {
            @Override public void onSuccess(PullResult r) {
                pulled("later", before, r);
                answered.countDown();
            }

            @Override public void onException(Throwable e) {
                step("refused", "what", "later", "text", e.getMessage());
                answered.countDown();
            }
        };
        c.pull(queue, "TagB", before, 32, callback);
        c.pullBlockIfNotFound(queue, "*", before + 6, 32, callback);
        Thread.sleep(300);
        sent("waited for", p.send(message(topic, "TagA", "k6", "pull 6"), queue));
        answered.await(30, TimeUnit.SECONDS);
        step("offset", "what", "none", "offset", c.fetchConsumeOffset(queue, true));
        c.updateConsumeOffset(queue, before + 4);
        c.getDefaultMQPullConsumerImpl().getOffsetStore().persist(queue);
        await("offset stored", 30, () -> {
            try {
                return c.fetchConsumeOffset(queue, true) == before + 4;
            } catch (Exception e) {
                return false;
            }
        });
        step("bounds", "min", c.minOffset(queue), "count", c.maxOffset(queue) - before, "earliest", c.earliestMsgStoreTime(queue) > 0);
        attempt("queue that is not there", () -> c.pull(new MessageQueue(topic, queue.getBrokerName(), 77), "*", 0, 32).getPullStatus());
        attempt("topic that is not there", () ->
            c.pull(new MessageQueue(own("nowhere"), queue.getBrokerName(), 0), "*", 0, 32).getPullStatus());
        c.shutdown();
        p.shutdown();
    }

    private void pulled(String what, long before, PullResult r) {
        StringBuilder keys = new StringBuilder();
        if (r.getMsgFoundList() != null) {
            r.getMsgFoundList().forEach(m -> keys.append(m.getKeys()).append(' '));
        }
        step("pulled", "what", what, "status", r.getPullStatus(), "next", r.getNextBeginOffset() - before, "min", r.getMinOffset(),
            "max", r.getMaxOffset() - before, "keys", keys.toString().trim());
    }
}
