import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;

/** Two teams use one name for a topic and a group, each in its namespace. */
class Namespaces extends Scenario {
    @Override
    @SuppressWarnings("deprecation")
    void play() throws Exception {
        for (String space : new String[] {"north", "south"}) {
            DefaultMQProducer p = new DefaultMQProducer(own("p"), Lab.account());
            p.setNamesrvAddr(nameServers);
            p.setNamespace(space);
            p.setSendMsgTimeout(20000);
            p.start();
            Lab.meet(p); // no topic of that name in the namespace is an answer, too
            sent(space, p.send(message(own("t"), "TagA", space, "for the " + space)));
            Set<String> done = ConcurrentHashMap.newKeySet();
            DefaultMQPushConsumer c = consumer(own("g"));
            c.setNamespace(space);
            c.subscribe(own("t"), "*");
            c.registerMessageListener((MessageListenerConcurrently) (ms, context) -> {
                for (MessageExt m : ms) {
                    got(space, m);
                    if (m.getReconsumeTimes() == 0) {
                        context.setDelayLevelWhenNextConsume(1);
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    }
                    done.add(m.getKeys());
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            c.start();
            await(space, 60, () -> done.contains(space));
            c.shutdown();
            p.shutdown();
            readAll("raw " + space, space + "%" + own("t"));
        }
    }
}
