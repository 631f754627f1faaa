import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Sends through the port two below the broker's, as clients with the "VIP channel" do. */
class FastPort extends Scenario {
    @Override
    void play() throws Exception {
        TransactionMQProducer p = new TransactionMQProducer(own("p"), Lab.account());
        p.setNamesrvAddr(nameServers);
        p.setVipChannelEnabled(true);
        p.setSendMsgTimeout(20000);
        p.setTransactionListener(new TransactionListener() {
            @Override public LocalTransactionState executeLocalTransaction(Message m, Object arg) {
                return m.getKeys().equals("commit") ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.UNKNOW;
            }

            @Override public LocalTransactionState checkLocalTransaction(MessageExt m) {
                step("check", "key", m.getKeys());
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        p.start();
        Lab.meet(p);
        sent("plain", p.send(message(own("t"), "TagA", "plain", "plain")));
        sent("commit", p.sendMessageInTransaction(message(own("t"), "TagA", "commit", "commit"), null));
        sent("check", p.sendMessageInTransaction(message(own("t"), "TagA", "check", "check"), null));
        ConcurrentLinkedQueue<MessageExt> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer c = printing("push", own("g"), own("t"), "*", seen);
        c.setVipChannelEnabled(true);
        c.start();
        await("all", 60, () -> seen.stream().map(MessageExt::getKeys).distinct().count() >= 3);
        String addr = p.getDefaultMQProducerImpl().getMqClientFactory().findBrokerAddressInPublish("broker-a");
        step("ports", "main", addr.substring(addr.indexOf(':') + 1));
        c.shutdown();
        p.shutdown();
    }
}
