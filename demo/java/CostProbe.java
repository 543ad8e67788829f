import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/**
 * What a guarantee costs: writes records, reads them with read_committed, and prints one line of JSON with records a
 * second and the quantiles of the time from send to read in milliseconds (by the records' timestamps, of one clock).
 *
 * <p>Arguments: bootstrap, path (plain, idempotent, transactional, at_least_once, exactly_once_v2, read), topic,
 * records a second (0: as many as it can), seconds, records in a transaction (transactional) or commit interval in
 * milliseconds (Streams), transactional.id or application.id, state directory. Streams copies the topic to TOPIC-out;
 * "read" reads what another program writes.
 */
public final class CostProbe {
    private static final int WARM_UP_SECONDS = 3;
    private static final byte[] VALUE = new byte[200];

    private CostProbe() { }

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String path = arguments[1];
        String topic = arguments[2];
        int rate = Integer.parseInt(arguments[3]);
        int seconds = Integer.parseInt(arguments[4]);
        int size = Integer.parseInt(arguments[5]);
        String name = arguments[6];
        boolean streaming = path.equals("at_least_once") || path.equals("exactly_once_v2");
        KafkaStreams streams = streaming ? copy(bootstrap, path, topic, size, name, arguments[7]) : null;
        AtomicReference<Exception> failure = new AtomicReference<>();
        Thread writer = new Thread(() -> {
            try {
                write(bootstrap, streaming ? "idempotent" : path, topic, rate, size, name);
            } catch (Exception error) {
                failure.set(error);
            }
        });
        writer.setDaemon(true);
        if (!path.equals("read")) {
            writer.start();
        }
        System.out.println(read(bootstrap, streaming ? topic + "-out" : topic, seconds, failure));
        System.out.flush();
        if (streams != null) {
            streams.close(Duration.ofSeconds(5));
        }
        Runtime.getRuntime().halt(0);
    }

    private static KafkaStreams copy(
            String bootstrap, String guarantee, String topic, int interval, String name, String state) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("application.id", name);
        settings.put("state.dir", state);
        settings.put("processing.guarantee", guarantee);
        settings.put("commit.interval.ms", Integer.toString(interval));
        settings.put("replication.factor", "1");
        settings.put("auto.offset.reset", "latest");
        settings.put("default.key.serde", Serdes.ByteArraySerde.class.getName());
        settings.put("default.value.serde", Serdes.ByteArraySerde.class.getName());
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(topic).to(topic + "-out");
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        while (streams.state() != KafkaStreams.State.RUNNING) {
            Thread.sleep(50);
        }
        return streams;
    }

    private static void write(String bootstrap, String path, String topic, int rate, int size, String name)
            throws ExecutionException, InterruptedException {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("acks", "all");
        settings.put("enable.idempotence", Boolean.toString(!path.equals("plain")));
        boolean transactional = path.equals("transactional");
        if (transactional) {
            settings.put("transactional.id", name);
        }
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (transactional) {
                producer.initTransactions();
            }
            long began = System.nanoTime();
            for (long sent = 0;; sent++) {
                if (transactional && sent % size == 0) {
                    if (sent > 0) {
                        producer.commitTransaction();
                    }
                    producer.beginTransaction();
                }
                if (rate > 0) {
                    long due = began + sent * 1_000_000_000L / rate;
                    while (System.nanoTime() < due) {
                        LockSupport.parkNanos(Math.min(1_000_000L, due - System.nanoTime()));
                    }
                }
                producer.send(new ProducerRecord<>(topic, VALUE));
            }
        }
    }

    private static String read(String bootstrap, String topic, int seconds, AtomicReference<Exception> failure)
            throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", "read_committed");
        long[] latencies = new long[20_000_000];
        int count = 0;
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                .map(each -> new TopicPartition(topic, each.partition())).toList();
            consumer.assign(partitions);
            consumer.seekToEnd(partitions);
            while (consumer.poll(Duration.ofMillis(500)).isEmpty()) {
                if (failure.get() != null) {
                    throw failure.get();
                }
            }
            long start = System.nanoTime() + WARM_UP_SECONDS * 1_000_000_000L;
            long end = start + seconds * 1_000_000_000L;
            while (System.nanoTime() < end && count < latencies.length) {
                if (failure.get() != null) {
                    throw failure.get();
                }
                var records = consumer.poll(Duration.ofMillis(100));
                long now = System.currentTimeMillis();
                if (System.nanoTime() < start) {
                    continue;
                }
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    if (count < latencies.length) {
                        latencies[count++] = now - record.timestamp();
                    }
                }
            }
        }
        long[] sorted = Arrays.copyOf(latencies, count);
        Arrays.sort(sorted);
        return "{\"records\": " + count + ", \"seconds\": " + seconds + ", \"p50_ms\": " + quantile(sorted, 0.5)
            + ", \"p99_ms\": " + quantile(sorted, 0.99) + "}";
    }

    private static long quantile(long[] sorted, double share) {
        return sorted.length == 0 ? -1 : sorted[(int) Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)];
    }
}
