import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** One story told to a server. Every step it prints carries the name of its class as "scenario". */
abstract class Scenario {
    String nameServers;
    String prefix;

    abstract void play() throws Exception;

    /** A topic or group of this scenario alone. */
    String own(String what) {
        return prefix + "_" + getClass().getSimpleName() + "_" + what;
    }

    void step(String step, Object... rest) {
        List<Object> all = new ArrayList<>(List.of("scenario", getClass().getSimpleName()));
        Collections.addAll(all, rest);
        Lab.step(step, all.toArray());
    }

    interface Attempt {
        Object run() throws Exception;
    }

    /** Prints what came out, or the error with its response code. */
    void attempt(String what, Attempt attempt) {
        try {
            step("outcome", "what", what, "value", attempt.run());
        } catch (Exception e) {
            step("refused", "what", what, "kind", e.getClass().getSimpleName(), "code", responseCode(e), "text", e.getMessage());
        }
    }

    static Object responseCode(Throwable e) {
        try {
            return e.getClass().getMethod("getResponseCode").invoke(e);
        } catch (ReflectiveOperationException none) {
            return null;
        }
    }

    void sent(String what, SendResult r) {
        MessageQueue q = r.getMessageQueue();
        step("sent", "what", what, "status", r.getSendStatus(), "msgId", r.getMsgId(), "offsetMsgId", r.getOffsetMsgId(), "queueId",
            q == null ? null : q.getQueueId(), "queueOffset", r.getQueueOffset(), "region", r.getRegionId(), "traceOn", r.isTraceOn());
    }

    void got(String who, MessageExt m) {
        byte[] body = m.getBody();
        Map<String, String> properties = new TreeMap<>(m.getProperties());
        step("got", "who", who, "topic", m.getTopic(), "queueId", m.getQueueId(), "queueOffset", m.getQueueOffset(), "tags", m.getTags(),
            "keys", m.getKeys(), "msgId", m.getMsgId(), "times", m.getReconsumeTimes(), "flag", m.getFlag(), "sysFlag", m.getSysFlag(),
            "delayed", m.getStoreTimestamp() - m.getBornTimestamp(), "body", body.length > 200 ? body.length + " bytes" : Lab.text(body),
            "hash", java.util.Arrays.hashCode(body), "properties", new Json(properties));
    }

    /** Already JSON: a map of texts. */
    static final class Json {
        final Map<String, String> map;

        Json(Map<String, String> map) {
            this.map = map;
        }
    }

    boolean await(String what, long seconds, java.util.function.BooleanSupplier done) throws InterruptedException {
        long begin = System.nanoTime();
        while (!done.getAsBoolean() && System.nanoTime() - begin < seconds * 1000000000L) {
            Thread.sleep(20);
        }
        boolean reached = done.getAsBoolean();
        step(reached ? "reached" : "missed", "what", what, "ms", (System.nanoTime() - begin) / 1000000);
        return reached;
    }

    Message message(String topic, String tags, String keys, String body) {
        return Lab.message(topic, tags, keys, body);
    }

    DefaultMQProducer producer() throws Exception {
        return Lab.producer(nameServers, own("p"));
    }

    /** A push consumer that begins at the first message and looks for new topics every second. */
    DefaultMQPushConsumer consumer(String group) {
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(group, Lab.account(), new AllocateMessageQueueAveragely());
        c.setNamesrvAddr(nameServers);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setConsumeThreadMin(1);
        c.setConsumeThreadMax(2);
        c.setPollNameServerInterval(1000);
        return c;
    }

    /** A push consumer that prints every message and is content. */
    DefaultMQPushConsumer printing(String who, String group, String topic, String tags, java.util.Collection<? super MessageExt> seen)
        throws Exception {
        DefaultMQPushConsumer c = consumer(group);
        c.subscribe(topic, tags);
        c.registerMessageListener((MessageListenerConcurrently) (ms, context) -> {
            for (MessageExt m : ms) {
                got(who, m);
                seen.add(m);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        return c;
    }

    DefaultMQPullConsumer puller(String group) throws Exception {
        DefaultMQPullConsumer c = new DefaultMQPullConsumer(group, Lab.account());
        c.setNamesrvAddr(nameServers);
        c.setConsumerPullTimeoutMillis(20000);
        c.start();
        return c;
    }

    /** Prints all messages of a topic as they lie in its queues. */
    void readAll(String who, String topic) throws Exception {
        DefaultMQPullConsumer c = puller(own("reader"));
        for (MessageQueue q : c.fetchSubscribeMessageQueues(topic)) {
            long offset = 0;
            PullResult r = c.pull(q, "*", offset, 32);
            while (r.getPullStatus() == PullStatus.FOUND) {
                r.getMsgFoundList().forEach(m -> got(who, m));
                offset = r.getNextBeginOffset();
                r = c.pull(q, "*", offset, 32);
            }
        }
        c.shutdown();
    }

    /** Waits until the name server knows a topic, which another client makes. */
    void awaitTopic(String topic) throws Exception {
        DefaultMQPullConsumer c = puller(own("awaits"));
        await("topic " + topic, 60, () -> {
            try {
                return !c.fetchSubscribeMessageQueues(topic).isEmpty();
            } catch (Exception notYet) {
                return false;
            }
        });
        c.shutdown();
    }

    /** Sets an enum whose package differs between 4.x and 5.x. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static void setEnum(Object o, String setter, String constant) throws Exception {
        for (Method m : o.getClass().getMethods()) {
            if (m.getName().equals(setter) && m.getParameterTypes()[0].isEnum()) {
                m.invoke(o, Enum.valueOf((Class) m.getParameterTypes()[0], constant));
                return;
            }
        }
        throw new NoSuchMethodException(setter);
    }
}
