import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** A group that is online is sent back in time, and forward again. */
class Resets extends Scenario {
    @Override
    void play() throws Exception {
        DefaultMQProducer p = producer();
        long middle = 0;
        for (int i = 0; i < 16; i++) {
            if (i == 8) {
                Thread.sleep(50);
                middle = System.currentTimeMillis();
                Thread.sleep(50);
            }
            sent("" + i, p.send(message(own("t"), "TagA", "k" + i, "reset " + i)));
        }
        ConcurrentLinkedQueue<MessageExt> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer c = printing("push", own("g"), own("t"), "*", seen);
        c.start();
        await("all", 60, () -> seen.size() >= 16);
        // Every queue has to have a stored offset before a group can be sent back.
        c.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        Thread.sleep(500);
        String broker = c.getDefaultMQPushConsumerImpl().getmQClientFactory().findBrokerAddressInPublish("broker-a");
        reset(p, broker, middle);
        await("again", 60, () -> seen.size() >= 24);
        Thread.sleep(300);
        c.shutdown();
        attempt("of a group that is not online", () -> offsets(p, broker, own("nobody"), 0));
        attempt("of a topic that is not there", () -> p.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl()
            .invokeBrokerToResetOffset(broker, own("nowhere"), own("g"), 0, true, 20000));
        p.shutdown();
    }

    private void reset(DefaultMQProducer p, String broker, long time) {
        attempt("reset", () -> offsets(p, broker, own("g"), time));
    }

    private Object offsets(DefaultMQProducer p, String broker, String group, long time) throws Exception {
        Map<MessageQueue, Long> offsets = p.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl()
            .invokeBrokerToResetOffset(broker, own("t"), group, time, true, 20000);
        return offsets.size();
    }
}
