import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Runs commands of mqadmin, one a line of standard input with its arguments separated by tabs, while a producer and a
 * consumer of the same process are online. "!residents topic" starts those two. Needs the tools on the class path.
 */
public class Mqadmin {
    static final int MESSAGES = 5;

    public static void main(String[] args) throws Exception {
        String nameServers = args[0];
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.setErr(System.out);
        Lab.step("ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] command = line.split("\t", -1);
            if (command[0].equals("!residents")) {
                residents(nameServers, command[1]);
            } else {
                System.out.println("@begin " + String.join(" ", command));
                try {
                    Class.forName("org.apache.rocketmq.tools.command.MQAdminStartup").getMethod("main", String[].class)
                        .invoke(null, (Object) command);
                } catch (Throwable e) {
                    e.printStackTrace(System.out);
                }
                System.out.println();
                System.out.println("@end");
            }
            System.out.flush();
        }
        System.exit(0);
    }

    static void residents(String nameServers, String topic) throws Exception {
        DefaultMQProducer p = new DefaultMQProducer("P" + topic, Lab.account());
        p.setNamesrvAddr(nameServers);
        p.setInstanceName("resident-producer");
        p.setSendMsgTimeout(20000);
        p.start();
        Lab.meet(p);
        for (int i = 0; i < MESSAGES; i++) {
            Message m = Lab.message(topic, i == 0 ? "TagB" : "TagA", "key" + i + " all", "message " + i);
            m.putUserProperty("number", String.valueOf(i));
            Lab.sent("message " + i, p.send(m, (MessageQueueSelector) (List<MessageQueue> queues, Message x, Object n) -> {
                Collections.sort(queues);
                return queues.get((Integer) n % queues.size());
            }, i));
        }
        DefaultMQPushConsumer c = Lab.consumer(nameServers, "C" + topic);
        c.setInstanceName("resident-consumer");
        c.setPersistConsumerOffsetInterval(1000);
        c.subscribe(topic, "*");
        AtomicInteger got = new AtomicInteger();
        c.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        Lab.await("consumed", 60000, () -> got.get() >= MESSAGES);
        Lab.step("residents");
    }
}
