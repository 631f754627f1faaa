import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/** Request and reply, traced, and bodies in every compression. Arguments: name servers, a name for topics and groups. */
public class Replies {
    private static final String TRACES = "RMQ_SYS_TRACE_TOPIC";
    private static String nameServers;
    private static String name;

    public static void main(String[] args) throws Exception {
        nameServers = args[0];
        name = args[1];
        replies();
        compressed();
        traces();
        System.exit(0);
    }

    private static void replies() throws Exception {
        DefaultMQProducer replier = Lab.producer(nameServers, name + "_replier");
        DefaultMQProducer asker = new DefaultMQProducer(name + "_asker", Lab.account());
        asker.setNamesrvAddr(nameServers);
        asker.setInstanceName(name + "_asker");
        asker.setSendMsgTimeout(20000);
        asker.start();
        Lab.meet(asker);
        // Not by the asker: its first request finds no route then, and it introduces itself to the brokers before it asks.
        replier.send(Lab.message(name, "first", "first", "silence"));
        DefaultMQPushConsumer c = Lab.consumer(nameServers, name + "_answering");
        c.subscribe(name, "*");
        c.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) {
                answer(replier, m);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        for (int i = 0; i < 3; i++) {
            Message got = asker.request(Lab.message(name, "ask", "ask" + i, "question " + i), 60000);
            Lab.step("reply", "body", Lab.text(got.getBody()), "topic", got.getTopic());
        }
        Message big = asker.request(Lab.message(name, "ask", "big", "0123456789".repeat(1000)), 60000);
        Lab.step("big reply", "size", big.getBody().length);
        CountDownLatch heard = new CountDownLatch(1);
        asker.request(Lab.message(name, "ask", "async", "question async"), new RequestCallback() {
            @Override public void onSuccess(Message m) {
                Lab.step("reply", "body", Lab.text(m.getBody()), "topic", m.getTopic());
                heard.countDown();
            }

            @Override public void onException(Throwable e) {
                Lab.step("no reply", "error", e);
                heard.countDown();
            }
        }, 60000);
        heard.await(60, TimeUnit.SECONDS);
        try {
            asker.request(Lab.message(name, "ask", "silence", "silence"), 1500);
            Lab.step("a reply to silence");
        } catch (RequestTimeoutException e) {
            Lab.step("timed out");
        }
        c.shutdown();
        asker.shutdown();
        replier.shutdown();
    }

    private static void answer(DefaultMQProducer replier, MessageExt m) {
        String question = Lab.text(m.getBody());
        if (question.equals("silence")) {
            return;
        }
        try {
            String body = question.startsWith("0123") ? question : "answer to " + question;
            Lab.step("answered", "status", replier.send(MessageUtil.createReplyMessage(m, Lab.bytes(body)), 20000).getSendStatus());
            if (question.equals("question 0")) {
                Message lost = MessageUtil.createReplyMessage(m, Lab.bytes("lost"));
                MessageAccessor.putProperty(lost, "REPLY_TO_CLIENT", "nobody");
                replier.send(lost, 20000);
                Lab.step("nobody answered");
            }
        } catch (MQClientException e) {
            Lab.step("reply refused", "code", e.getResponseCode(), "remark", e.toString() + e.getCause());
        } catch (Exception e) {
            Lab.step("reply failed", "error", e);
        }
    }

    private static void compressed() throws Exception {
        String topic = name + "_big";
        String body = "0123456789".repeat(2000);
        for (String type : new String[] {"ZLIB", "LZ4", "ZSTD"}) {
            System.setProperty("rocketmq.message.compressType", type);
            DefaultMQProducer p = Lab.producer(nameServers, name + type);
            Lab.sent(type, p.send(Lab.message(topic, type, type, type + body)));
            p.shutdown();
        }
        AtomicInteger seen = new AtomicInteger();
        DefaultMQPushConsumer c = Lab.consumer(nameServers, name + "_big");
        c.subscribe(topic, "*");
        c.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) {
                Lab.step("unpacked", "type", m.getTags(), "good", Lab.text(m.getBody()).equals(m.getTags() + body),
                    "packed", m.getStoreSize() < 1000, "sysFlag", m.getSysFlag());
                seen.incrementAndGet();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        Lab.await("unpacked", 60000, () -> seen.get() >= 3);
        c.shutdown();
    }

    private static void traces() throws Exception {
        String topic = name + "_traced";
        DefaultMQProducer p = new DefaultMQProducer(name + "_tracing", Lab.account(), true, TRACES);
        p.setNamesrvAddr(nameServers);
        p.setSendMsgTimeout(20000);
        p.start();
        Lab.meet(p);
        Lab.sent("traced", p.send(Lab.message(topic, "TagT", "traced key", "traced")));
        AtomicInteger seen = new AtomicInteger();
        DefaultMQPushConsumer c =
            new DefaultMQPushConsumer(name + "_traced", Lab.account(), new AllocateMessageQueueAveragely(), true, TRACES);
        c.setNamesrvAddr(nameServers);
        c.setConsumeFromWhere(org.apache.rocketmq.common.consumer.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.subscribe(topic, "*");
        c.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            seen.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        Lab.await("traced message", 60000, () -> seen.get() >= 1);
        readTraces();
        c.shutdown();
        p.shutdown();
    }

    private static void readTraces() throws Exception {
        AtomicInteger kinds = new AtomicInteger();
        DefaultMQPushConsumer c = Lab.consumer(nameServers, name + "_traces");
        c.subscribe(TRACES, "*");
        c.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) {
                for (String record : Lab.text(m.getBody()).split("\u0002")) {
                    String[] fields = record.split("\u0001");
                    boolean ours = record.contains(name + "_trac");
                    if (ours) {
                        Lab.step("trace", "kind", fields[0], "fields", fields.length, "keys", m.getKeys());
                        kinds.incrementAndGet();
                    }
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        Lab.await("traces", 60000, () -> kinds.get() >= 3);
        c.shutdown();
    }
}
