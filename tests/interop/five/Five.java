import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** The story of test_five_clients.py: endpoint, topic; for TLS and a signature, access key and secret key. */
public class Five {
    private static final ClientServiceProvider SERVICE = ClientServiceProvider.loadService();
    private static String topic;

    private static String text(MessageView message) {
        byte[] body = new byte[message.getBody().remaining()];
        message.getBody().get(body);
        return new String(body, StandardCharsets.UTF_8);
    }

    private static synchronized void say(String step, String text) {
        System.out.println("{\"step\": \"" + step + "\", \"text\": \"" + text + "\"}");
    }

    private static MessageBuilder message(String body) {
        return SERVICE.newMessageBuilder().setTopic(topic).setTag("five").setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    private static void got(String who, MessageView message) {
        say(who, text(message));
        if (text(message).equals("normal 0")) {
            say("as sent", message.getTag().orElse("") + " " + message.getKeys() + " " + message.getProperties());
        }
    }

    public static void main(String[] arguments) throws Exception {
        topic = arguments[1];
        ClientConfigurationBuilder settings = ClientConfiguration.newBuilder().setEndpoints(arguments[0]);
        if (arguments.length > 2) {
            settings.setCredentialProvider(new StaticSessionCredentialsProvider(arguments[2], arguments[3]));
        } else {
            settings.enableSsl(false);
        }
        ClientConfiguration where = settings.build();
        Map<String, FilterExpression> wanted =
            Map.of(topic, new FilterExpression("five", FilterExpressionType.TAG));
        PushConsumer push = SERVICE.newPushConsumerBuilder().setClientConfiguration(where)
            .setConsumerGroup(topic + "-push").setSubscriptionExpressions(wanted)
            .setMessageListener(one -> {
                got("push", one);
                return ConsumeResult.SUCCESS;
            }).build();
        Producer producer = SERVICE.newProducerBuilder().setClientConfiguration(where).setTopics(topic)
            .setTransactionChecker(one -> {
                say("check", text(one));
                return TransactionResolution.COMMIT;
            }).build();
        for (int number = 0; number < 3; number++) {
            producer.send(message("normal " + number).setKeys("k" + number).addProperty("a", "b").build());
        }
        producer.send(message("ordered").setMessageGroup("group").build());
        producer.send(message("delayed").setDeliveryTimestamp(System.currentTimeMillis() + 2000).build());
        Transaction transaction = producer.beginTransaction();
        producer.send(message("committed").build(), transaction);
        transaction.commit();
        transaction = producer.beginTransaction();
        producer.send(message("rolled back").build(), transaction);
        transaction.rollback();
        producer.send(message("checked").build(), producer.beginTransaction());
        SimpleConsumer simple = SERVICE.newSimpleConsumerBuilder().setClientConfiguration(where)
            .setConsumerGroup(topic + "-simple").setAwaitDuration(Duration.ofSeconds(2))
            .setSubscriptionExpressions(wanted).build();
        try {
            producer.send(SERVICE.newMessageBuilder().setTopic("Nothing").setBody(new byte[] {1}).build());
        } catch (Exception error) {
            say("refused", String.valueOf(error.getMessage()).contains("40402") ? "40402" : error.toString());
        }
        say("ready", "");
        while (true) {
            for (MessageView one : simple.receive(16, Duration.ofSeconds(30))) {
                got("simple", one);
                simple.changeInvisibleDuration(one, Duration.ofSeconds(40));
                simple.ack(one);
            }
        }
    }
}
