import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Every way to send, and what arrives. */
class Sends extends Scenario {
    static final int NEAR_THE_LIMIT = 4 * 1024 * 1024 - 4096;
    static final int ABOVE_THE_LIMIT = 4 * 1024 * 1024 + 1;

    @Override
    void play() throws Exception {
        String topic = own("t");
        DefaultMQProducer p = producer();
        p.setMaxMessageSize(8 * 1024 * 1024);
        p.setRetryTimesWhenSendFailed(0);
        int expected = 0;

        Message m = message(topic, "TagA", "key1 key2", "plain");
        m.putUserProperty("color", "blue");
        m.putUserProperty("stadt", "Z\u00fcrich \u4e2d\u6587 \ud83d\ude80");
        m.setFlag(7);
        sent("sync", p.send(m));
        sent("no tags", p.send(new Message(topic, Lab.bytes("no tags"))));
        m = message(topic, "\u6807\u7b7e", "\u952e", "\u00fc\u4e2d\u6587\ud83d\ude80");
        m.setWaitStoreMsgOK(false);
        sent("non-ASCII, does not wait", p.send(m));
        sent("compressed", p.send(message(topic, "TagA", "big", "0123456789".repeat(1000))));
        List<MessageQueue> queues = p.fetchPublishMessageQueues(topic);
        step("queues", "count", queues.size());
        sent("explicit queue " + queues.get(2).getQueueId(), p.send(message(topic, "TagA", "explicit", "to a queue"), queues.get(2)));
        expected += 5;

        CountDownLatch answered = new CountDownLatch(2);
        for (int i = 0; i < 2; i++) {
            String what = "async " + i;
            p.send(message(topic, "TagB", "async" + i, what), new SendCallback() {
                @Override public void onSuccess(SendResult r) {
                    sent(what, r);
                    answered.countDown();
                }

                @Override public void onException(Throwable e) {
                    step("refused", "what", what, "text", e.getMessage());
                    answered.countDown();
                }
            });
        }
        answered.await(30, TimeUnit.SECONDS);
        p.sendOneway(message(topic, "TagB", "oneway", "one-way"));
        p.sendOneway(message(topic, "TagB", "oneway-queue", "one-way to a queue"), queues.get(1));
        expected += 4;

        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            Message item = message(topic, i == 1 ? "TagB" : "TagA", "batch" + i, "batch item " + i);
            item.putUserProperty("no", "" + i);
            item.setFlag(i);
            batch.add(item);
        }
        sent("batch", p.send(batch));
        sent("batch to a queue", p.send(List.of(message(topic, "TagA", "pair0", "pair 0"), message(topic, "TagA", "pair1", "pair 1")), queues.get(3)));
        expected += 5;

        p.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        sent("near the limit", p.send(new Message(topic, "TagBig", "near", noise(NEAR_THE_LIMIT))));
        expected += 1;
        attempt("body too big", () -> p.send(new Message(topic, "TagBig", "above", noise(ABOVE_THE_LIMIT))).getSendStatus());
        Message wide = message(topic, "TagA", "wide", "properties too long");
        wide.putUserProperty("long", "x".repeat(33000));
        attempt("properties too long", () -> p.send(wide).getSendStatus());
        attempt("queue that is not there", () ->
            p.send(message(topic, "TagA", "nowhere", "nowhere"), new MessageQueue(topic, queues.get(0).getBrokerName(), 77)).getSendStatus());
        attempt("half topic", () -> p.send(message("RMQ_SYS_TRANS_HALF_TOPIC", "", "", "forbidden")).getSendStatus());
        attempt("schedule topic", () -> p.send(message("SCHEDULE_TOPIC_XXXX", "", "", "forbidden")).getSendStatus());

        int all = expected;
        ConcurrentLinkedQueue<MessageExt> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer c = printing("push", own("g"), topic, "*", seen);
        c.start();
        await("all", 60, () -> seen.size() >= all);
        c.shutdown();
        p.shutdown();
    }

    static byte[] noise(int size) {
        byte[] body = new byte[size];
        new Random(size).nextBytes(body);
        return body;
    }
}
