import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages that come after any time, or are taken back before. */
class TimersFive extends Scenario {
    @Override
    void play() throws Exception {
        String topic = own("t");
        DefaultMQProducer p = producer();
        Message m = message(topic, "TagT", "seconds", "after 2 s");
        m.setDelayTimeSec(2);
        sent("seconds", p.send(m));
        m = message(topic, "TagT", "milliseconds", "after 3000 ms");
        m.setDelayTimeMs(3000);
        sent("milliseconds", p.send(m));
        m = message(topic, "TagT", "instant", "at a time");
        m.setDeliverTimeMs(System.currentTimeMillis() + 4000);
        sent("instant", p.send(m));
        m = message(topic, "TagT", "recalled", "taken back");
        m.setDelayTimeMs(5000);
        SendResult r = p.send(m);
        sent("recalled", r);
        attempt("recall", () -> p.recallMessage(topic, r.getRecallHandle()));
        Message far = message(topic, "TagT", "far", "too far away");
        far.setDelayTimeSec(4 * 24 * 3600);
        attempt("too far away", () -> p.send(far).getSendStatus());
        attempt("bad handle", () -> p.recallMessage(topic, "nonsense"));
        ConcurrentLinkedQueue<MessageExt> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer c = printing("push", own("g"), topic, "*", seen);
        c.start();
        await("those that come", 60, () -> seen.size() >= 3);
        Thread.sleep(4000);
        c.shutdown();
        p.shutdown();
    }
}
