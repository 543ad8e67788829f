// In the connector's own package: KafkaSink can be extended from there only.
package org.apache.flink.connector.kafka.sink;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.sink2.Committer;
import org.apache.flink.api.connector.sink2.CommitterInitContext;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A Flink job in one JVM (a MiniCluster) that writes numbered records to a topic, exactly once.
 *
 * <p>Arguments: settings as key=value: bootstrap, topic, prefix, naming (INCREMENTING or POOLING), interval (of
 * checkpoints), timeout (transaction.timeout.ms), checkpoints (a folder), parallelism, rate (records a second), gate (a
 * file: while it exists no transaction is committed), restore (the path of a checkpoint, optional). Times are
 * milliseconds.
 */
public final class FlinkJob {
    private FlinkJob() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, String> settings = new HashMap<>();
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        Configuration configuration = new Configuration();
        configuration.setString("execution.checkpointing.interval", settings.get("interval") + " ms");
        configuration.setString("execution.checkpointing.dir", Path.of(settings.get("checkpoints")).toUri().toString());
        configuration.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        configuration.setString("restart-strategy.type", "fixed-delay");
        configuration.setString("restart-strategy.fixed-delay.attempts", "1000000");
        configuration.setString("restart-strategy.fixed-delay.delay", "1 s");
        configuration.setString("rest.port", "0");
        configuration.setString("rest.bind-address", "127.0.0.1");
        if (settings.containsKey("restore")) {
            configuration.setString("execution.state-recovery.path", settings.get("restore"));
        }
        int parallelism = Integer.parseInt(settings.get("parallelism"));
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration);
        double rate = Double.parseDouble(settings.get("rate"));
        DataGeneratorSource<String> numbers =
                new DataGeneratorSource<>(
                        number -> "record-" + number,
                        Long.MAX_VALUE,
                        RateLimiterStrategy.perSecond(rate),
                        Types.STRING);
        Properties producer = new Properties();
        producer.setProperty("bootstrap.servers", settings.get("bootstrap"));
        producer.setProperty("transaction.timeout.ms", settings.get("timeout"));
        producer.setProperty("key.serializer", ByteArraySerializer.class.getName());
        producer.setProperty("value.serializer", ByteArraySerializer.class.getName());
        environment
                .fromSource(numbers, WatermarkStrategy.noWatermarks(), "numbers")
                .sinkTo(new HeldSink(settings, producer))
                .name("to-kafka");
        environment.execute("numbers");
    }

    /** A KafkaSink whose transactions are committed only while a file, the gate, does not exist. */
    private static final class HeldSink extends KafkaSink<String> {
        private static final long serialVersionUID = 1L;
        private final String gate;

        HeldSink(Map<String, String> settings, Properties producer) {
            super(
                    DeliveryGuarantee.EXACTLY_ONCE,
                    producer,
                    settings.get("prefix"),
                    KafkaRecordSerializationSchema.<String>builder()
                            .setTopic(settings.get("topic"))
                            .setValueSerializationSchema(new SimpleStringSchema())
                            .build(),
                    TransactionNamingStrategy.valueOf(settings.get("naming")));
            this.gate = settings.get("gate");
        }

        @Override
        public Committer<KafkaCommittable> createCommitter(CommitterInitContext context) {
            return new HeldCommitter(super.createCommitter(context), Path.of(gate));
        }
    }

    private record HeldCommitter(Committer<KafkaCommittable> committer, Path gate)
            implements Committer<KafkaCommittable> {
        @Override
        public void commit(Collection<CommitRequest<KafkaCommittable>> requests)
                throws IOException, InterruptedException {
            while (!requests.isEmpty() && Files.exists(gate)) {
                Thread.sleep(20);
            }
            committer.commit(requests);
        }

        @Override
        @SuppressWarnings("try") // close() of the interface may be interrupted
        public void close() throws Exception {
            committer.close();
        }
    }
}
