import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * One transactional producer that does what its standard input says, one command a line, and answers each with one line
 * of JSON. The protocol is that of workloads/rdkafka_client.py.
 *
 * <p>Arguments: bootstrap servers, transactional.id, then further producer settings as key=value.
 * The end of the input halts the process without closing anything: what a crash looks like to the broker.
 */
public final class TransactionalClient {
    private final Properties settings = new Properties();
    private final List<Future<RecordMetadata>> pending = new ArrayList<>();
    private KafkaProducer<String, String> producer;
    private long sequence;

    private TransactionalClient(String[] arguments) {
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[1]);
        settings.put("max.block.ms", "20000");
        settings.put("linger.ms", "0");
        for (int i = 2; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        TransactionalClient client = new TransactionalClient(arguments);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            System.out.println(client.answer(line.trim().split(" ")));
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private String answer(String[] words) {
        long began = System.nanoTime();
        try {
            int done = execute(words);
            double seconds = (System.nanoTime() - began) / 1e9;
            return "{\"ok\": true, \"done\": " + done + ", \"seconds\": " + seconds + "}";
        } catch (ExecutionException error) {
            return failure(error.getCause());
        } catch (Exception error) {
            return failure(error);
        }
    }

    private int execute(String[] words) throws Exception {
        switch (words[0]) {
            case "init":
                drop();
                producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
                producer.initTransactions();
                return 1;
            case "begin":
                producer.beginTransaction();
                return 1;
            case "send":
                Integer partition = words.length > 3 ? Integer.valueOf(words[3]) : null;
                return send(words[1], Integer.parseInt(words[2]), partition);
            case "offsets":
                producer.sendOffsetsToTransaction(
                    Map.of(
                        new TopicPartition(words[2], Integer.parseInt(words[3])),
                        new OffsetAndMetadata(Long.parseLong(words[4]))),
                    new ConsumerGroupMetadata(words[1]));
                return 1;
            case "flush":
                return flush();
            case "commit":
                producer.commitTransaction();
                return flush();
            case "abort":
                pending.clear();
                producer.abortTransaction();
                return 1;
            case "loop":
                return loop(Integer.parseInt(words[1]), words[2], Integer.parseInt(words[3]), words[4]);
            case "close":
                producer.close(Duration.ofSeconds(10));
                return 1;
            default:
                throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    /** A new incarnation takes over from one that crashed: a close that may not wait sends no abort. */
    private void drop() {
        pending.clear();
        if (producer != null) {
            producer.close(Duration.ZERO);
            producer = null;
        }
    }

    private int send(String topic, int count, Integer partition) {
        for (int i = 0; i < count; i++) {
            String number = Long.toString(sequence++);
            pending.add(producer.send(new ProducerRecord<>(topic, partition, number, "value-" + number)));
        }
        return count;
    }

    private int flush() throws Exception {
        producer.flush();
        int count = pending.size();
        try {
            for (Future<RecordMetadata> sent : pending) {
                sent.get();
            }
        } finally {
            pending.clear();
        }
        return count;
    }

    private int loop(int transactions, String topic, int records, String end) throws Exception {
        for (int i = 0; i < transactions; i++) {
            producer.beginTransaction();
            send(topic, records, null);
            flush();
            if (end.equals("commit")) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        }
        return transactions;
    }

    private static String failure(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof ProducerFencedException || cause instanceof InvalidProducerEpochException) {
                return failure("fenced", cause);
            }
            // The error that a V2 client gets when its transaction was ended by its timeout.
            if (cause instanceof InvalidTxnStateException) {
                return failure("ended", cause);
            }
            if (cause instanceof TimeoutException) {
                return failure("timeout", cause);
            }
        }
        return failure("other", error);
    }

    private static String failure(String kind, Throwable error) {
        String text = error.getClass().getSimpleName() + ": " + error.getMessage();
        String quoted = text.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}", " ");
        return "{\"ok\": false, \"kind\": \"" + kind + "\", \"error\": \"" + quoted + "\"}";
    }
}
