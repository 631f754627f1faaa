import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;

/** One member of a consumer group: name servers, topic, group. Prints what it gets until a line comes in. */
public class Member {
    public static void main(String[] args) throws Exception {
        DefaultMQPushConsumer c = Lab.consumer(args[0], args[2]);
        c.setMqClientApiTimeout(30000); // start() fails when the name server takes longer, and machines are busy
        c.subscribe(args[1], "*");
        c.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(m -> Lab.got("member", m));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        Lab.step("started");
        Lab.awaitLine();
        c.shutdown();
        System.exit(0);
    }
}
