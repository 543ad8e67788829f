import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/**
 * Pushes of clients, as request threads of a broker hand them to our receiver, as fast as it takes them.
 *
 * <p>Arguments: class of the reporter, address, bytes of its queue, threads, pushes of each, bytes of a push, seconds to
 * live on. Prints the slowest and the 99.9th percentile of the calls, in microseconds.
 */
public final class FloodReceiver {
    private FloodReceiver() { }

    public static void main(String[] arguments) throws Exception {
        Object reporter = Class.forName(arguments[0]).getDeclaredConstructor().newInstance();
        Map<String, Object> settings = Map.of(
                "kafka.eos.telemetry.url", arguments[1],
                "kafka.eos.telemetry.queue.bytes", arguments[2],
                "kafka.eos.telemetry.timeout.ms", "5000");
        MetricsReporter metrics = (MetricsReporter) reporter;
        metrics.configure(settings);
        ClientTelemetryReceiver receiver = ((ClientTelemetry) reporter).clientReceiver();
        int threads = Integer.parseInt(arguments[3]);
        int pushes = Integer.parseInt(arguments[4]);
        ByteBuffer content = ByteBuffer.allocate(Integer.parseInt(arguments[5]));
        Uuid instance = Uuid.randomUuid();
        ClientTelemetryPayload payload = proxy(ClientTelemetryPayload.class, Map.of(
                "clientInstanceId", instance, "isTerminating", false, "contentType", "OTLP", "data", content));
        AuthorizableRequestContext context = proxy(AuthorizableRequestContext.class, Map.of(
                "clientId", "flood", "principal", KafkaPrincipal.ANONYMOUS,
                "clientAddress", InetAddress.getLoopbackAddress()));
        long[] took = new long[threads * pushes];
        CountDownLatch over = new CountDownLatch(threads);
        for (int thread = 0; thread < threads; thread++) {
            int first = thread * pushes;
            new Thread(() -> {
                for (int at = 0; at < pushes; at++) {
                    long began = System.nanoTime();
                    receiver.exportMetrics(context, payload);
                    took[first + at] = System.nanoTime() - began;
                }
                over.countDown();
            }).start();
        }
        over.await();
        Arrays.sort(took);
        System.out.println(took[took.length - 1] / 1000 + " " + took[(int) (took.length * 0.999)] / 1000);
        Thread.sleep(1000L * Integer.parseInt(arguments[6]));
        metrics.close();
        System.exit(0);
    }

    private static <T> T proxy(Class<T> type, Map<String, Object> answers) {
        return type.cast(Proxy.newProxyInstance(
                type.getClassLoader(), new Class<?>[] {type}, (self, method, given) -> answers.get(method.getName())));
    }
}
