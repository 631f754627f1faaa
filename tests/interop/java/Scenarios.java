import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Plays scenarios at the same time: name servers, prefix of all topics and groups, names of scenarios. */
public class Scenarios {
    private static final long PAUSE_MS = 300;

    public static void main(String[] args) throws Exception {
        Lab.producer(args[0], args[1] + "_first").shutdown(); // loads what all of them need
        List<Thread> threads = new ArrayList<>();
        for (String name : Arrays.copyOfRange(args, 2, args.length)) {
            Scenario scenario = (Scenario) Class.forName(name).getDeclaredConstructor().newInstance();
            scenario.nameServers = args[0];
            scenario.prefix = args[1];
            Thread thread = new Thread(() -> tell(scenario), name);
            thread.start();
            threads.add(thread);
            // The JVM is cold: clients that all start in the same instant time out waiting for each other.
            Thread.sleep(PAUSE_MS);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.exit(0);
    }

    private static void tell(Scenario scenario) {
        try {
            scenario.play();
            scenario.step("end", "good", true);
        } catch (Throwable e) {
            e.printStackTrace();
            scenario.step("end", "good", false, "error", e);
        }
    }
}
