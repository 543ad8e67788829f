import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * A Kafka Streams application with exactly_once_v2 that counts records by key in a store with a changelog.
 *
 * <p>Arguments: bootstrap servers, application.id, input topic, state directory, then further settings as key=value.
 */
public final class CountStreams {
    private CountStreams() { }

    public static void main(String[] arguments) throws InterruptedException {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("state.dir", arguments[3]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("num.stream.threads", "2");
        settings.put("replication.factor", "1");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        for (int i = 4; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[2], Consumed.with(Serdes.String(), Serdes.String()))
            .groupByKey()
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        CountDownLatch over = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(5));
            over.countDown();
        }));
        streams.start();
        over.await();
    }
}
