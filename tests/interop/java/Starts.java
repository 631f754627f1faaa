import java.text.SimpleDateFormat;
import java.util.Date;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** Where new groups begin: at the first message, at the last, at a time. */
class Starts extends Scenario {
    @Override
    void play() throws Exception {
        DefaultMQProducer p = producer();
        for (int i = 0; i < 8; i++) {
            sent("early " + i, p.send(message(own("t"), "TagA", "early" + i, "early " + i)));
        }
        // The client says a time in whole seconds.
        Thread.sleep(2000);
        String middle = new SimpleDateFormat("yyyyMMddHHmmss").format(new Date(System.currentTimeMillis() - 500));
        for (int i = 0; i < 8; i++) {
            sent("late " + i, p.send(message(own("t"), "TagA", "late" + i, "late " + i)));
        }
        for (ConsumeFromWhere where : new ConsumeFromWhere[] {ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, ConsumeFromWhere.CONSUME_FROM_TIMESTAMP}) {
            ConcurrentLinkedQueue<MessageExt> seen = new ConcurrentLinkedQueue<>();
            DefaultMQPushConsumer c = printing(where.name(), own(where.name()), own("t"), "*", seen);
            c.setConsumeFromWhere(where);
            c.setConsumeTimestamp(middle);
            c.start();
            await(where.name(), 60, () -> seen.stream().filter(m -> m.getKeys().startsWith("late")).count() >= 8);
            Thread.sleep(200);
            c.shutdown();
        }
        p.shutdown();
    }
}
