import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * A client of a user: name servers, access key, secret key, topic, forbidden topic, group. It sends, in a transaction
 * that a check decides, too, tries what it may not, and consumes. The hook is found by name: 4.x has it in a jar of its own.
 */
public class Accounts {
    static final int MESSAGES = 3;

    public static void main(String[] args) throws Exception {
        String topic = args[3];
        RPCHook hook = Lab.hook(args[1], args[2]);
        TransactionMQProducer p = new TransactionMQProducer(args[5] + "_p", hook);
        p.setNamesrvAddr(args[0]);
        p.setInstanceName("accounts-producer");
        p.setSendMsgTimeout(20000);
        p.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message m, Object state) {
                return (LocalTransactionState) state;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt m) {
                Lab.step("check", "keys", m.getKeys(), "topic", m.getTopic());
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        p.start();
        attempt("send", () -> p.send(Lab.message(topic, "TagA", "sent", "sent")));
        attempt("forbidden", () -> p.send(Lab.message(args[4], "TagA", "forbidden", "forbidden")));
        attempt("commit", () -> p.sendMessageInTransaction(Lab.message(topic, "TagA", "commit", "commit"), LocalTransactionState.COMMIT_MESSAGE));
        attempt("unknown", () -> p.sendMessageInTransaction(Lab.message(topic, "TagA", "unknown", "unknown"), LocalTransactionState.UNKNOW));
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(args[5], hook, new AllocateMessageQueueAveragely());
        c.setNamesrvAddr(args[0]);
        c.setInstanceName("accounts-consumer");
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.subscribe(topic, "*");
        AtomicInteger seen = new AtomicInteger();
        c.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(m -> Lab.got("push", m));
            seen.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        if (args.length < 7) {
            Lab.await("all", 90000, () -> seen.get() >= MESSAGES);
        }
        c.shutdown();
        p.shutdown();
        Lab.step("end");
        System.exit(0);
    }

    interface Try {
        Object run() throws Exception;
    }

    static void attempt(String what, Try work) {
        try {
            work.run();
            Lab.step("tried", "what", what, "code", 0);
        } catch (Exception e) {
            Throwable cause = e;
            while (!(cause instanceof MQBrokerException) && cause.getCause() != null) {
                cause = cause.getCause();
            }
            int code = cause instanceof MQBrokerException ? ((MQBrokerException) cause).getResponseCode() : -1;
            Lab.step("tried", "what", what, "code", code, "text", String.valueOf(cause.getMessage()));
        }
    }
}
