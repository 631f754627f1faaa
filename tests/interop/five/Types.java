import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.consumer.OffsetOption;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** The story of test_five_types.py: endpoint, topic of type PRIORITY, topic of type LITE, and two groups of the latter. */
public class Types {
    private static final ClientServiceProvider SERVICE = ClientServiceProvider.loadService();

    private static String text(MessageView message) {
        byte[] body = new byte[message.getBody().remaining()];
        message.getBody().get(body);
        return new String(body, StandardCharsets.UTF_8);
    }

    private static synchronized void say(String step, String text) {
        System.out.println("{\"step\": \"" + step + "\", \"text\": \"" + text + "\"}");
    }

    private static LitePushConsumer reader(ClientConfiguration where, String topic, String group, String step)
        throws Exception {
        return SERVICE.newLitePushConsumerBuilder().setClientConfiguration(where).bindTopic(topic)
            .setConsumerGroup(group)
            .setMessageListener(one -> {
                say(step, text(one) + " of " + one.getLiteTopic().orElse("") + " " + one.getDeliveryAttempt());
                boolean fails = text(one).startsWith("fails") && one.getDeliveryAttempt() < 2;
                return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
            }).build();
    }

    public static void main(String[] arguments) throws Exception {
        ClientConfiguration where =
            ClientConfiguration.newBuilder().setEndpoints(arguments[0]).enableSsl(false).build();
        String ranked = arguments[1];
        String parent = arguments[2];
        Producer producer =
            SERVICE.newProducerBuilder().setClientConfiguration(where).setTopics(ranked, parent).build();
        for (int priority : new int[] {0, 3, 1, 2, 0}) {
            producer.send(SERVICE.newMessageBuilder().setTopic(ranked).setPriority(priority)
                .setBody(("priority " + priority).getBytes(StandardCharsets.UTF_8)).build());
        }
        SimpleConsumer simple = SERVICE.newSimpleConsumerBuilder().setClientConfiguration(where)
            .setConsumerGroup(ranked + "-simple").setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Map.of(ranked, FilterExpression.SUB_ALL)).build();
        for (int count = 0; count < 5; ) {
            for (MessageView one : simple.receive(1, Duration.ofSeconds(30))) {
                say("ranked", text(one) + " " + one.getPriority().orElse(-1));
                simple.ack(one);
                count++;
            }
        }
        LitePushConsumer shared = reader(where, parent, arguments[3], "shared");
        LitePushConsumer first = reader(where, parent, arguments[4], "first");
        LitePushConsumer second = reader(where, parent, arguments[4], "second");
        shared.subscribeLite("a");
        first.subscribeLite("a");
        for (String lite : new String[] {"a", "b"}) {
            for (String body : new String[] {"one", "fails", "two"}) {
                producer.send(SERVICE.newMessageBuilder().setTopic(parent).setLiteTopic(lite)
                    .setBody(body.getBytes(StandardCharsets.UTF_8)).build());
            }
        }
        shared.subscribeLite("b", OffsetOption.ofTailN(1));
        say("sent", "");
        System.in.read();
        second.subscribeLite("a");
        for (int wait = 0; wait < 100 && first.getLiteTopicSet().contains("a"); wait++) {
            Thread.sleep(100);
        }
        say("evicted", String.valueOf(first.getLiteTopicSet()));
        shared.unsubscribeLite("a");
        producer.send(SERVICE.newMessageBuilder().setTopic(parent).setLiteTopic("a")
            .setBody("three".getBytes(StandardCharsets.UTF_8)).build());
        try {
            shared.subscribeLite("a/b");
        } catch (Exception error) {
            say("refused", String.valueOf(error.getMessage()).contains("40020") ? "40020" : error.toString());
        }
        say("ready", "");
        Thread.sleep(600_000);
    }
}
