import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;

/**
 * One member of a consumer group: name servers, topic, group, and "orderly" when it consumes in order. Prints what it
 * gets until a line comes in.
 */
public class Member {
    public static void main(String[] args) throws Exception {
        DefaultMQPushConsumer c = started(args, 3);
        Lab.step("started");
        Lab.awaitLine();
        c.shutdown();
        System.exit(0);
    }

    /** start() fails when the first request to a name server does, as it may on a machine that is busy. */
    private static DefaultMQPushConsumer started(String[] args, int attempts) throws Exception {
        DefaultMQPushConsumer c = Lab.consumer(args[0], args[2]);
        c.subscribe(args[1], "*");
        if (args.length > 3) {
            c.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(m -> Lab.got("member", m));
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            c.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(m -> Lab.got("member", m));
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        try {
            c.start();
            return c;
        } catch (IllegalStateException e) {
            if (attempts == 1) {
                throw e;
            }
            c.shutdown();
            return started(args, attempts - 1);
        }
    }
}
