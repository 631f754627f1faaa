import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** A client that uses every broker of a cluster. Arguments: name servers, topic (on all brokers), group, count. */
public class Spread {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        String group = args[2];
        int count = Integer.parseInt(args[3]);
        AtomicInteger seen = new AtomicInteger();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (String who : new String[] {"one", "two"}) {
            DefaultMQPushConsumer c = Lab.consumer(args[0], group);
            c.setInstanceName(group + who);
            c.subscribe(topic, "*");
            c.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt m : messages) {
                    Lab.step("got", "who", who, "broker", context.getMessageQueue().getBrokerName(), "body", Lab.text(m.getBody()));
                }
                seen.addAndGet(messages.size());
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            c.start();
            consumers.add(c);
        }
        // A consumer that comes takes its queues over within some seconds; the messages shall find them shared out.
        Lab.await("shared out", 60000, () -> consumers.stream().allMatch(c -> share(c, topic) * 2 == queues(c, topic)));
        DefaultMQProducer p = Lab.producer(args[0], group + "_p");
        for (int i = 0; i < count; i++) {
            Lab.sent("plain " + i, p.send(Lab.message(topic, "TagA", "plain" + i, "plain " + i)));
        }
        TransactionMQProducer t = new TransactionMQProducer(group + "_t", Lab.account());
        t.setNamesrvAddr(args[0]);
        t.setSendMsgTimeout(20000);
        t.setTransactionListener(new TransactionListener() {
            @Override public LocalTransactionState executeLocalTransaction(Message m, Object arg) {
                return LocalTransactionState.valueOf(Lab.text(m.getBody()).split(" ")[0]);
            }

            @Override public LocalTransactionState checkLocalTransaction(MessageExt m) {
                Lab.step("check", "body", Lab.text(m.getBody()));
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        t.start();
        Lab.meet(t);
        for (String state : new String[] {"COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"}) {
            for (int i = 0; i < 4; i++) {
                String body = state + " " + i;
                Lab.sent(body, t.sendMessageInTransaction(Lab.message(topic, "TagT", body.replace(' ', '_'), body), null));
            }
        }
        Lab.await("all", 90000, () -> seen.get() >= count + 8);
        consumers.forEach(DefaultMQPushConsumer::shutdown);
        t.shutdown();
        p.shutdown();
        System.exit(0);
    }

    private static long share(DefaultMQPushConsumer c, String topic) {
        return c.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
            .filter(q -> q.getTopic().equals(topic)).count();
    }

    private static int queues(DefaultMQPushConsumer c, String topic) {
        try {
            return c.fetchSubscribeMessageQueues(topic).size();
        } catch (Exception e) {
            return -1;
        }
    }
}
