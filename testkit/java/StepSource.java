import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.SourceTask.TransactionBoundary;

/**
 * A source connector that counts: {@code batch} records a step, a step every {@code pause.ms}. It can define its own
 * transactions (transaction.boundary=connector), one for every two steps, and fails when a file exists: while
 * {@code fail.start.file} exists its tasks do not start, while {@code fail.file} exists they fail at their next step.
 */
public final class StepSource extends SourceConnector {
    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> given) {
        settings = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return StepTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        List<Map<String, String>> tasks = new ArrayList<>();
        for (int task = 0; task < maxTasks; task++) {
            Map<String, String> one = new java.util.HashMap<>(settings);
            one.put("step.task", Integer.toString(task));
            tasks.add(one);
        }
        return tasks;
    }

    @Override
    public void stop() {
        settings = Map.of();
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Topic to write to.")
            .define("batch", ConfigDef.Type.INT, 5, ConfigDef.Importance.LOW, "Records a step.")
            .define("pause.ms", ConfigDef.Type.LONG, 200L, ConfigDef.Importance.LOW, "Time between steps.")
            .define("fail.file", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "Fail while it exists.")
            .define("fail.start.file", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "Do not start while it exists.")
            .define("source.password", ConfigDef.Type.PASSWORD, "", ConfigDef.Importance.LOW, "A secret that is not used.");
    }

    @Override
    public String version() {
        return "1";
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> given) {
        return ConnectorTransactionBoundaries.SUPPORTED;
    }

    /** The one that counts. */
    public static final class StepTask extends SourceTask {
        private String topic;
        private int batch;
        private long pause;
        private String failFile;
        private Map<String, String> partition;
        private boolean ownTransactions;
        private long count;
        private long steps;

        @Override
        public void start(Map<String, String> given) {
            failOn(given.getOrDefault("fail.start.file", ""), given);
            topic = given.get("topic");
            batch = Integer.parseInt(given.getOrDefault("batch", "5"));
            pause = Long.parseLong(given.getOrDefault("pause.ms", "200"));
            failFile = given.getOrDefault("fail.file", "");
            partition = Map.of("task", given.get("step.task"));
            String boundary = given.getOrDefault("transaction.boundary", "poll");
            ownTransactions = TransactionBoundary.fromProperty(boundary) == TransactionBoundary.CONNECTOR;
            Map<String, Object> reached = context.offsetStorageReader().offset(partition);
            count = reached == null ? 0 : (Long) reached.get("count");
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(pause);
            failOn(failFile, context.configs());
            List<SourceRecord> records = new ArrayList<>();
            for (int number = 0; number < batch; number++) {
                count++;
                String value = partition.get("task") + ":" + count;
                records.add(new SourceRecord(partition, Map.of("count", count), topic, Schema.STRING_SCHEMA, value));
            }
            steps++;
            if (ownTransactions && steps % 2 == 0) {
                context.transactionContext().commitTransaction(records.get(records.size() - 1));
            }
            return records;
        }

        private static void failOn(String file, Map<String, String> given) {
            if (!file.isEmpty() && Files.exists(Path.of(file))) {
                // What careless connectors do: the secret ends up in the trace that the REST API shows.
                String url = "jdbc:demo://scott:" + given.getOrDefault("source.password", "") + "@db/orders";
                throw new ConnectException("told to fail", new IllegalStateException("cannot reach " + url));
            }
        }

        @Override
        public void stop() {
            steps = 0;
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
