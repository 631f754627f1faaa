import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** The driver of five_lines.py for Java, as lines.py is for Python: endpoint, plain or tls, access key, secret key. */
public class Lines {
    private static final ClientServiceProvider SERVICE = ClientServiceProvider.loadService();
    private static final int LARGE = 200;  // bytes of a body that is not shown
    private static final Map<String, AutoCloseable> CLIENTS = new ConcurrentHashMap<>();
    private static final Map<String, Transaction> TRANSACTIONS = new ConcurrentHashMap<>();
    private static final Map<String, MessageView> GOT = new ConcurrentHashMap<>();
    private static String[] given;

    private static synchronized void say(Object... values) {
        StringBuilder line = new StringBuilder("{");
        for (int at = 0; at < values.length; at += 2) {
            line.append(at == 0 ? "\"" : ", \"").append(values[at]).append("\": ").append(quoted(values[at + 1]));
        }
        System.out.println(line.append('}'));
    }

    private static String quoted(Object value) {
        if (value instanceof Integer) {
            return value.toString();
        }
        StringBuilder text = new StringBuilder("\"");
        for (char one : String.valueOf(value).toCharArray()) {
            text.append(one < ' ' || one > '~' || one == '"' || one == '\\' ? String.format("\\u%04x", (int) one) : one);
        }
        return text.append('"').toString();
    }

    private static String text(MessageView message) {
        byte[] body = new byte[message.getBody().remaining()];
        message.getBody().get(body);
        return new String(body, StandardCharsets.UTF_8);
    }

    private static void show(String who, MessageView one) {
        String body = text(one);
        GOT.put(who + " " + body, one);
        say("step", "got", "who", who, "body", body.length() < LARGE ? body : "large " + body.length(),
            "attempt", one.getDeliveryAttempt(), "tag", one.getTag().orElse(""),
            "keys", String.join(" ", new TreeSet<>(one.getKeys())),
            "property", one.getProperties().getOrDefault("a", ""), "group", one.getMessageGroup().orElse(""),
            "lite", one.getLiteTopic().orElse(""), "priority", String.valueOf(one.getPriority().orElse(0)));
    }

    private static Message message(Map<String, String> order) {
        String body = order.get("body").repeat(Integer.parseInt(order.getOrDefault("times", "1")));
        MessageBuilder made = SERVICE.newMessageBuilder().setTopic(order.get("topic"))
            .setBody(body.getBytes(StandardCharsets.UTF_8));
        if (order.containsKey("tag")) {
            made.setTag(order.get("tag"));
        }
        if (order.containsKey("key")) {
            made.setKeys(order.get("key"));
        }
        if (order.containsKey("property")) {
            made.addProperty("a", order.get("property"));
        }
        if (order.containsKey("group")) {
            made.setMessageGroup(order.get("group"));
        }
        if (order.containsKey("lite")) {
            made.setLiteTopic(order.get("lite"));
        }
        if (order.containsKey("priority")) {
            made.setPriority(Integer.parseInt(order.get("priority")));
        }
        if (order.containsKey("delay")) {
            made.setDeliveryTimestamp(System.currentTimeMillis() + 1000 * Long.parseLong(order.get("delay")));
        }
        return made.build();
    }

    private static Map<String, FilterExpression> expressions(Map<String, String> order) {
        String sql = order.get("sql");
        return Map.of(order.get("topic"), sql == null ? new FilterExpression(order.getOrDefault("tags", "*"))
            : new FilterExpression(sql, FilterExpressionType.SQL92));
    }

    private static MessageListener listener(Map<String, String> order) {
        int fails = Integer.parseInt(order.getOrDefault("fails", "0"));
        return one -> {
            show(order.get("name"), one);
            boolean failed = text(one).startsWith("fails") && one.getDeliveryAttempt() <= fails;
            return failed ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
        };
    }

    /** An order may name another door, or another account than the process was given; an empty access key is none. */
    private static ClientConfiguration where(Map<String, String> order) {
        ClientConfigurationBuilder made = ClientConfiguration.newBuilder()
            .setEndpoints(order.getOrDefault("endpoint", given[0]))
            .enableSsl(given[1].equals("tls")).setRequestTimeout(Duration.ofSeconds(15));
        String access = order.getOrDefault("access", given.length > 2 ? given[2] : "");
        if (!access.isEmpty()) {
            String secret = order.getOrDefault("secret", given.length > 3 ? given[3] : "");
            made.setCredentialProvider(new StaticSessionCredentialsProvider(access, secret));
        }
        return made.build();
    }

    private static Producer producer(Map<String, String> order) throws Exception {
        return SERVICE.newProducerBuilder().setClientConfiguration(where(order)).setTopics(order.get("topic"))
            .setTransactionChecker(one -> {
                say("step", "check", "who", order.get("name"), "body", text(one));
                switch (text(one).split(" ")[0]) {
                    case "commit":
                        return TransactionResolution.COMMIT;
                    case "rollback":
                        return TransactionResolution.ROLLBACK;
                    default:
                        return TransactionResolution.UNKNOWN;
                }
            }).build();
    }

    private static String told(Throwable error) {
        String text = String.valueOf(error.getMessage());
        if (text.startsWith("not in this client")) {
            return text;
        }
        StringBuilder all = new StringBuilder(error.toString());
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
            all.append(" because of ").append(cause);
        }
        return all.toString();
    }

    private static String obey(String verb, Map<String, String> order) throws Exception {
        String name = order.get("name");
        AutoCloseable client = name == null ? null : CLIENTS.get(name);
        switch (verb) {
            case "producer":
                CLIENTS.put(name, producer(order));
                return "";
            case "send":
                String handle = ((Producer) client).send(message(order)).getRecallHandle();
                return handle == null ? "" : handle;
            case "half":
                Transaction made = ((Producer) client).beginTransaction();
                ((Producer) client).send(message(order), made);
                TRANSACTIONS.put(order.get("transaction"), made);
                return "";
            case "end":
                if (order.get("how").equals("commit")) {
                    TRANSACTIONS.get(order.get("transaction")).commit();
                } else {
                    TRANSACTIONS.get(order.get("transaction")).rollback();
                }
                return "";
            case "recall":
                ((Producer) client).recallMessage(order.get("topic"), order.get("handle"));
                return "";
            case "simple":
                CLIENTS.put(name, SERVICE.newSimpleConsumerBuilder().setClientConfiguration(where(order))
                    .setConsumerGroup(order.get("group")).setSubscriptionExpressions(expressions(order))
                    .setAwaitDuration(Duration.ofSeconds(Long.parseLong(order.get("wait")))).build());
                return "";
            case "receive":
                int count = 0;
                for (MessageView one : ((SimpleConsumer) client).receive(
                    Integer.parseInt(order.get("count")), Duration.ofSeconds(Long.parseLong(order.get("invisible"))))) {
                    show(name, one);
                    count++;
                }
                return String.valueOf(count);
            case "ack":
                ((SimpleConsumer) client).ack(GOT.get(name + " " + order.get("body")));
                return "";
            case "change":
                ((SimpleConsumer) client).changeInvisibleDuration(GOT.get(name + " " + order.get("body")),
                    Duration.ofSeconds(Long.parseLong(order.get("invisible"))));
                return "";
            case "push":
                CLIENTS.put(name, SERVICE.newPushConsumerBuilder().setClientConfiguration(where(order))
                    .setConsumerGroup(order.get("group")).setSubscriptionExpressions(expressions(order))
                    .setMessageListener(listener(order)).build());
                return "";
            case "lite":
                CLIENTS.put(name, SERVICE.newLitePushConsumerBuilder().setClientConfiguration(where(order))
                    .bindTopic(order.get("topic")).setConsumerGroup(order.get("group"))
                    .setMessageListener(listener(order)).build());
                return "";
            case "lite_simple":
                throw new UnsupportedOperationException("not in this client: " + verb);
            case "subscribe":
                ((LitePushConsumer) client).subscribeLite(order.get("lite"));
                return "";
            case "unsubscribe":
                ((LitePushConsumer) client).unsubscribeLite(order.get("lite"));
                return "";
            case "close":
                CLIENTS.remove(name).close();
                return "";
            default:
                throw new IllegalArgumentException("no verb " + verb);
        }
    }

    public static void main(String[] arguments) throws Exception {
        given = arguments;
        ExecutorService threads = Executors.newCachedThreadPool();
        say("step", "ready");
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            String[] words = line.split("\t");
            Map<String, String> order = new HashMap<>();
            for (int at = 1; at < words.length; at++) {
                String[] word = words[at].split("=", 2);
                order.put(word[0], word[1]);
            }
            threads.execute(() -> {
                try {
                    say("step", "done", "number", order.get("number"), "text", obey(words[0], order));
                } catch (Throwable error) {
                    say("step", "failed", "number", order.get("number"), "text", told(error));
                }
            });
        }
        System.exit(0);
    }
}
