package kafka.eos.telemetry;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.zip.GZIPOutputStream;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Forwards pushes of clients to an OTLP endpoint over HTTP, as they came: the bytes gzipped, and what the broker knows of
 * the client as headers.
 *
 * <p>A request thread copies the push into a queue of a bounded number of bytes and never waits: what does not fit is
 * dropped and counted in the log. One daemon thread sends, so that the pushes of a client keep their order.
 */
final class Forwarder implements AutoCloseable {
    static final String PREFIX = "kafka.eos.telemetry.";

    private static final Logger LOG = LoggerFactory.getLogger(Forwarder.class);
    private static final int ATTEMPTS = 3;
    private static final long ENTRY_BYTES = 1024;
    private static final long REPORT_NANOS = TimeUnit.MINUTES.toNanos(1);

    private record Push(byte[] content, Map<String, String> headers) {
        long size() {
            return content.length + ENTRY_BYTES;
        }
    }

    private final URI url;
    private final Path tokenFile;
    private final String cluster;
    private final long mostBytes;
    private final Duration timeout;
    private final HttpClient http;

    private final Deque<Push> queue = new ArrayDeque<>(); // guards itself and the fields below
    private long bytes;
    private long dropped;
    private long reported;
    private Thread sender;
    private boolean closed;

    /** Settings are broker properties that begin with {@link #PREFIX}. Throws ConfigException. */
    Forwarder(Map<String, ?> configs) {
        url = url(text(configs, "url", null));
        String file = text(configs, "token.file", "");
        tokenFile = file.isEmpty() ? null : Path.of(file);
        cluster = text(configs, "cluster", "");
        mostBytes = number(configs, "queue.bytes", 8L * 1024 * 1024);
        timeout = Duration.ofMillis(number(configs, "timeout.ms", 5000));
        http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(timeout).build();
        reported = System.nanoTime() - REPORT_NANOS;
    }

    /** Called on a request thread: does not wait and does not throw. {@code intervalMs} is 0 where it is not known. */
    void forward(AuthorizableRequestContext client, ClientTelemetryPayload payload, int intervalMs) {
        try {
            ByteBuffer data = payload.data().duplicate();
            byte[] content = new byte[data.remaining()];
            data.get(content);
            add(new Push(content, headers(client, payload, intervalMs)));
        } catch (RuntimeException error) {
            LOG.debug("a push of a client is not forwarded", error);
        }
    }

    private void add(Push push) {
        long lost;
        synchronized (queue) {
            if (closed) {
                return;
            }
            if (bytes + push.size() <= mostBytes) {
                queue.add(push);
                bytes += push.size();
                if (sender == null) { // no thread in controllers and in brokers without a subscription
                    sender = new Thread(this::send, "kafka-eos-telemetry");
                    sender.setDaemon(true);
                    sender.start();
                }
                queue.notifyAll();
                return;
            }
            dropped++;
            lost = lostToReport();
        }
        report(lost, "the queue is full");
    }

    private Map<String, String> headers(
            AuthorizableRequestContext client, ClientTelemetryPayload payload, int intervalMs) {
        Map<String, String> headers = new LinkedHashMap<>();
        put(headers, "Kafka-Cluster", cluster);
        put(headers, "Kafka-Client-Instance-Id", String.valueOf(payload.clientInstanceId()));
        put(headers, "Kafka-Client-Id", client.clientId());
        put(headers, "Kafka-Client-Principal", String.valueOf(client.principal()));
        InetAddress address = client.clientAddress();
        put(headers, "Kafka-Client-Address", address == null ? "" : address.getHostAddress());
        if (client instanceof RequestContext context) { // as it is in every broker; the interface has no software
            put(headers, "Kafka-Client-Software-Name", context.clientInformation.softwareName());
            put(headers, "Kafka-Client-Software-Version", context.clientInformation.softwareVersion());
        }
        put(headers, "Kafka-Push-Interval-Ms", intervalMs > 0 ? Integer.toString(intervalMs) : "");
        put(headers, "Kafka-Client-Terminating", payload.isTerminating() ? "true" : "");
        return headers;
    }

    private static void put(Map<String, String> headers, String name, String value) {
        if (value != null && !value.isEmpty()) {
            headers.put(name, URLEncoder.encode(value, StandardCharsets.UTF_8).replace("+", "%20"));
        }
    }

    private void send() {
        try {
            while (true) {
                Push push;
                synchronized (queue) {
                    while (queue.isEmpty()) {
                        if (closed) {
                            return;
                        }
                        queue.wait();
                    }
                    push = queue.remove();
                    bytes -= push.size();
                }
                deliver(push);
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt(); // close
        }
    }

    /** Delivers a push, or drops it after {@link #ATTEMPTS} attempts or a refusal. */
    private void deliver(Push push) throws InterruptedException {
        String why = "";
        for (int attempt = 1; attempt <= ATTEMPTS; attempt++) {
            try {
                HttpResponse<byte[]> answer = http.send(request(push), HttpResponse.BodyHandlers.ofByteArray());
                if (answer.statusCode() == 200) {
                    return;
                }
                why = url + " answered " + answer.statusCode();
                if (answer.statusCode() != 429 && answer.statusCode() != 503) {
                    break;
                }
            } catch (IOException | RuntimeException error) {
                why = url + ": " + error;
            }
            if (attempt < ATTEMPTS) {
                TimeUnit.SECONDS.sleep(attempt);
            }
        }
        long lost;
        synchronized (queue) {
            dropped++;
            lost = lostToReport();
        }
        report(lost, why);
    }

    private HttpRequest request(Push push) throws IOException {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        try (GZIPOutputStream gzip = new GZIPOutputStream(body)) {
            gzip.write(push.content());
        }
        HttpRequest.Builder request = HttpRequest.newBuilder(url)
                .timeout(timeout)
                .header("Content-Type", "application/x-protobuf")
                .header("Content-Encoding", "gzip")
                .POST(HttpRequest.BodyPublishers.ofByteArray(body.toByteArray()));
        push.headers().forEach(request::header);
        if (tokenFile != null) { // read again each time: it may be rotated
            request.header("Authorization", "Bearer " + Files.readString(tokenFile).strip());
        }
        return request.build();
    }

    /** How many were dropped, once a minute, else 0. The caller holds the lock. */
    private long lostToReport() {
        if (System.nanoTime() - reported < REPORT_NANOS) {
            return 0;
        }
        reported = System.nanoTime();
        return dropped;
    }

    private static void report(long lost, String why) {
        if (lost > 0) {
            LOG.warn("{} pushes of client metrics were dropped so far; the last because {}", lost, why);
        }
    }

    @Override
    public void close() {
        Thread running;
        long lost;
        synchronized (queue) {
            if (closed) {
                return;
            }
            closed = true;
            dropped += queue.size();
            lost = dropped;
            queue.clear();
            running = sender;
            queue.notifyAll();
        }
        if (running != null) {
            running.interrupt();
        }
        report(lost, "the broker stops");
    }

    private static String text(Map<String, ?> configs, String name, String otherwise) {
        Object value = configs.get(PREFIX + name);
        if (value == null && otherwise == null) {
            throw new ConfigException(PREFIX + name + " is missing: the address that takes OTLP, ending in /v1/metrics");
        }
        return value == null ? otherwise : value.toString().strip();
    }

    private static long number(Map<String, ?> configs, String name, long otherwise) {
        String value = text(configs, name, Long.toString(otherwise));
        try {
            long number = Long.parseLong(value);
            if (number > 0) {
                return number;
            }
        } catch (NumberFormatException error) {
            LOG.debug("no number", error);
        }
        throw new ConfigException(PREFIX + name, value, "must be a positive number");
    }

    private static URI url(String value) {
        try {
            URI found = URI.create(value);
            if (found.getHost() != null && ("http".equals(found.getScheme()) || "https".equals(found.getScheme()))) {
                return found;
            }
        } catch (IllegalArgumentException error) {
            LOG.debug("no address", error);
        }
        throw new ConfigException(PREFIX + "url", value, "must be an address of http or https");
    }
}
