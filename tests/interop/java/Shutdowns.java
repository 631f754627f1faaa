import java.util.Map;

/**
 * Makes shutdown() of a client 5.x quick. It joins a thread that looks only every 3 s whether it is to end, and mqadmin
 * makes a client and shuts it down for each command. As soon as somebody waits for such a thread it is woken up.
 */
final class Shutdowns extends Thread {
    private static final long LOOK_MS = 100;

    Shutdowns() {
        super("wakes threads that are to end");
        setDaemon(true);
    }

    @Override
    public void run() {
        try {
            while (true) {
                Thread.sleep(LOOK_MS);
                Map<Thread, StackTraceElement[]> all = Thread.getAllStackTraces();
                if (all.values().stream().anyMatch(stack -> in(stack, ".ServiceThread", "shutdown"))) {
                    all.forEach((thread, stack) -> {
                        if (thread.getName().startsWith("NettyEventExecutor") && in(stack, ".LinkedBlockingQueue", "poll")) {
                            thread.interrupt();
                        }
                    });
                }
            }
        } catch (InterruptedException end) {
            // Nobody does that.
        }
    }

    private static boolean in(StackTraceElement[] stack, String type, String method) {
        for (StackTraceElement frame : stack) {
            if (frame.getClassName().endsWith(type) && frame.getMethodName().equals(method)) {
                return true;
            }
        }
        return false;
    }
}
