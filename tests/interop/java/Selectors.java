import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Consumers that select by SQL92. Arguments: name servers, a name for topic and groups, how many messages,
 * the messages ("body;tag;name=value;..."), then selectors to pull by, and behind "--refused" those to start push consumers with.
 */
public class Selectors {
    private static String nameServers;
    private static String name;
    private static MessageQueue queue;
    private static DefaultMQProducer producer;

    public static void main(String[] args) throws Exception {
        nameServers = args[0];
        name = args[1];
        int count = Integer.parseInt(args[2]);
        producer = Lab.producer(nameServers, name + "_p");
        producer.send(Lab.message(name, "first", "first", "makes the topic"));
        queue = producer.fetchPublishMessageQueues(name).get(0);
        for (MessageQueue q : producer.fetchPublishMessageQueues(name)) {
            queue = q.getQueueId() == 0 ? q : queue;
        }
        for (int i = 0; i < count; i++) {
            producer.send(message(args[3 + i]), queue);
        }
        List<String> pulled = new ArrayList<>();
        List<String> refused = new ArrayList<>();
        List<String> into = pulled;
        for (int i = 3 + count; i < args.length; i++) {
            if (args[i].equals("--refused")) {
                into = refused;
            } else {
                into.add(args[i]);
            }
        }
        pull(pulled);
        push();
        litePull();
        refuse(refused);
        producer.shutdown();
        System.exit(0);
    }

    private static Message message(String text) {
        String[] parts = text.split(";");
        Message m = Lab.message(name, parts[1], parts[0], parts[0]);
        for (int i = 2; i < parts.length; i++) {
            int at = parts[i].indexOf('=');
            m.putUserProperty(parts[i].substring(0, at), parts[i].substring(at + 1));
        }
        return m;
    }

    /** Every selector over the whole queue: the subscription travels with the pull. */
    private static void pull(List<String> selectors) throws Exception {
        DefaultMQPullConsumer c = new DefaultMQPullConsumer(name + "_pull", Lab.account());
        c.setNamesrvAddr(nameServers);
        c.start();
        long end = c.maxOffset(queue);
        // The client learns from the answer to a heartbeat whether the broker is new enough for selectors.
        Lab.await("heartbeat", 60000, () -> {
            c.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory().sendHeartbeatToAllBrokerWithLock();
            try {
                return c.pull(queue, MessageSelector.bySql("TRUE"), 0, 1, 20000) != null;
            } catch (Exception e) {
                return false;
            }
        });
        for (String selector : selectors) {
            StringBuilder bodies = new StringBuilder();
            long offset = 0;
            try {
                while (offset < end) {
                    PullResult r = c.pull(queue, MessageSelector.bySql(selector), offset, 32, 20000);
                    if (r.getMsgFoundList() != null) {
                        r.getMsgFoundList().stream().map(m -> Lab.text(m.getBody())).filter(b -> b.length() == 1)
                            .forEach(b -> bodies.append(b).append(' '));
                    }
                    offset = Math.max(offset + 1, r.getNextBeginOffset());
                }
                Lab.step("pulled", "selector", selector, "bodies", bodies.toString().trim());
            } catch (Exception e) {
                Lab.step("pull failed", "selector", selector, "error", e);
            }
        }
        c.shutdown();
    }

    /** A group whose heartbeat carries the selector; what fails comes again through the retry topic. */
    private static void push() throws Exception {
        Map<String, Integer> seen = new HashMap<>();
        DefaultMQPushConsumer c = Lab.consumer(nameServers, name + "_push");
        AtomicInteger live = new AtomicInteger();
        AtomicInteger retried = new AtomicInteger();
        c.subscribe(name, MessageSelector.bySql("live = 'yes' AND amount >= 5"));
        c.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) {
                Lab.got("push", m);
                if (m.getReconsumeTimes() > 0) {
                    retried.incrementAndGet();
                } else if (Lab.text(m.getBody()).equals("live 7")) {
                    context.setDelayLevelWhenNextConsume(1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                } else {
                    live.incrementAndGet();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        for (int i = 0; i < 10; i++) {
            Message m = Lab.message(name, "live", "live" + i, "live " + i);
            m.putUserProperty("live", "yes");
            m.putUserProperty("amount", String.valueOf(i));
            producer.send(m);
        }
        Lab.await("live", 60000, () -> live.get() >= 4);
        Lab.await("retried", 60000, () -> retried.get() >= 1);
        c.shutdown();
    }

    private static void litePull() throws Exception {
        DefaultLitePullConsumer c = new DefaultLitePullConsumer(name + "_lite", Lab.account());
        c.setNamesrvAddr(nameServers);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.subscribe(name, MessageSelector.bySql("live = 'yes' AND amount < 3"));
        c.start();
        List<MessageExt> seen = new ArrayList<>();
        long end = System.currentTimeMillis() + 60000;
        while (seen.size() < 3 && System.currentTimeMillis() < end) {
            seen.addAll(c.poll(1000));
        }
        seen.forEach(m -> Lab.got("lite", m));
        c.shutdown();
    }

    /** The client asks the broker when it starts. None is shut down: the process ends behind this. */
    private static void refuse(List<String> selectors) throws Exception {
        for (int i = 0; i < selectors.size(); i++) {
            DefaultMQPushConsumer c = Lab.consumer(nameServers, name + "_bad" + i);
            c.setInstanceName(name + i);
            c.subscribe(name, MessageSelector.bySql(selectors.get(i)));
            c.registerMessageListener((MessageListenerConcurrently) (messages, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
            try {
                c.start();
                Lab.step("taken", "selector", selectors.get(i));
            } catch (MQClientException e) {
                Lab.step("refused", "selector", selectors.get(i), "code", e.getResponseCode(), "message", e.getErrorMessage());
            }
        }
    }
}
