/** Runs another main class with JSON headers, also where that class asks for the binary form: the choice is read once. */
public class JsonHeaders {
    public static void main(String[] arguments) throws Exception {
        System.setProperty("rocketmq.serialize.type", "JSON");
        Class.forName("org.apache.rocketmq.remoting.protocol.RemotingCommand");
        String[] rest = java.util.Arrays.copyOfRange(arguments, 1, arguments.length);
        Class.forName(arguments[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
    }
}
