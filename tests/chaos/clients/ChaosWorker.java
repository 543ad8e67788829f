import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Several transactional ids of Kafka's own client in one process, each in a thread that does a drawn mix of things for
 * ever. Arguments, output and the meaning of every action are those of rdkafka_worker.py.
 */
public final class ChaosWorker implements Runnable {
    private static final long COMMIT_MS = 75_000;
    private static final long FENCE_GAP_MS = 6_500;
    private static final CountDownLatch STOPPING = new CountDownLatch(1);
    private static final PrintStream OUT = new PrintStream(System.out, false);

    /** The producer is of no more use: a new one must be initialised. */
    private static final class Lost extends Exception {
        private static final long serialVersionUID = 1L;
    }

    private final String bootstrap;
    private final String incarnation;
    private final Map<String, Integer> topics;
    private final String id;
    private final long timeoutMs;
    private final long pauseMs;
    private final List<String> actions = new ArrayList<>();
    private final Random random;
    private KafkaProducer<String, String> producer;
    private int number;
    private long offset;

    private ChaosWorker(String bootstrap, String seed, String incarnation, Map<String, Integer> topics, String spec) {
        String[] parts = spec.split(";");
        this.bootstrap = bootstrap;
        this.incarnation = incarnation;
        this.topics = topics;
        this.id = parts[0];
        this.timeoutMs = Long.parseLong(parts[1]);
        this.pauseMs = Long.parseLong(parts[2]);
        for (String pair : parts[3].split(",")) {
            String[] action = pair.split("=");
            for (int i = 0; i < Integer.parseInt(action[1]); i++) {
                actions.add(action[0]);
            }
        }
        this.random = new Random((seed + "/" + id + "/" + incarnation).hashCode());
        this.offset = Long.parseLong(incarnation) * 1_000_000;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Integer> topics = new LinkedHashMap<>();
        for (String place : arguments[3].split(",")) {
            topics.put(place.split(":")[0], Integer.valueOf(place.split(":")[1]));
        }
        List<Thread> threads = new ArrayList<>();
        for (int i = 4; i < arguments.length; i++) {
            threads.add(new Thread(
                new ChaosWorker(arguments[0], arguments[1], arguments[2], topics, arguments[i])));
        }
        for (Thread thread : threads) {
            thread.start();
        }
        while (System.in.read() >= 0) {
            continue;
        }
        STOPPING.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
        Runtime.getRuntime().halt(0);
    }

    @Override
    public void run() {
        try {
            while (STOPPING.getCount() > 0) {
                try {
                    if (producer == null) {
                        init("");
                    }
                    act(actions.get(random.nextInt(actions.size())));
                } catch (Lost error) {
                    drop(Duration.ZERO);
                    pause(500);
                } catch (RuntimeException | ExecutionException error) {
                    // What failed before its end was tried: end it, or begin anew where that is not possible.
                    recover(error);
                }
                pause((long) ((0.3 + 1.4 * random.nextDouble()) * pauseMs));
            }
            say("stopped", "", "");
        } catch (InterruptedException error) {
            say("stopped", "", error.toString());
        }
    }

    private void act(String action) throws Lost, ExecutionException, InterruptedException {
        String token;
        switch (action) {
            case "commit":
                end(write(), true);
                return;
            case "abort":
                end(write(), false);
                return;
            case "offsets":
                token = write();
                producer.sendOffsetsToTransaction(
                    Map.of(
                        new TopicPartition(topics.keySet().iterator().next(), 0), new OffsetAndMetadata(++offset)),
                    new ConsumerGroupMetadata("g-" + id));
                end(token, true);
                return;
            case "slow":
                token = write();
                pause(15_000 + random.nextInt(30_000));
                end(token, true);
                return;
            case "timeout":
                token = write();
                pause(timeoutMs + 4_000 + random.nextInt(4_000));
                end(token, true);
                return;
            case "fence":
                token = write();
                KafkaProducer<String, String> first = producer;
                producer = null;
                try {
                    init(token);
                } finally {
                    first.close(Duration.ZERO);
                }
                return;
            case "restart":
                pause(FENCE_GAP_MS);
                drop(Duration.ofSeconds(5));
                init("");
                return;
            default:
                throw new IllegalArgumentException(action);
        }
    }

    private void init(String displaced) throws Lost {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        settings.put("transaction.timeout.ms", Long.toString(timeoutMs));
        settings.put("delivery.timeout.ms", "20000");
        settings.put("request.timeout.ms", "10000");
        settings.put("max.block.ms", "20000");
        settings.put("linger.ms", "0");
        settings.put("buffer.memory", "1048576");
        settings.put("enable.metrics.push", "false");
        KafkaProducer<String, String> fresh =
            new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        for (int i = 0; i < 10 && STOPPING.getCount() > 0; i++) {
            try {
                fresh.initTransactions();
                producer = fresh;
                say("initialised", displaced, "");
                return;
            } catch (TimeoutException error) {
                continue;
            } catch (RuntimeException error) {
                say("refused", displaced, "init: " + error);
                break;
            }
        }
        fresh.close(Duration.ZERO);
        throw new Lost();
    }

    private String write() throws ExecutionException, InterruptedException {
        number++;
        String token = token();
        producer.beginTransaction();
        say("begun", token, "");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        List<String> names = new ArrayList<>(topics.keySet());
        int sends = 1 + random.nextInt(3);
        for (int i = 0; i < sends; i++) {
            String topic = names.get(random.nextInt(names.size()));
            int count = topics.get(topic);
            int partition = random.nextInt(count);
            sent.add(producer.send(new ProducerRecord<>(topic, partition, id, token)));
            if (random.nextBoolean()) {
                sent.add(producer.send(new ProducerRecord<>(topic, (partition + 1) % count, id, token)));
            }
        }
        producer.flush();
        for (Future<RecordMetadata> each : sent) {
            each.get();
        }
        say("written", token, "");
        return token;
    }

    private String token() {
        return id + "/" + incarnation + "." + number;
    }

    private void end(String token, boolean commit) throws Lost {
        String word = commit ? "commit" : "abort";
        say(word + "s", token, "");
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(COMMIT_MS);
        while (true) {
            try {
                if (commit) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
                say(commit ? "committed" : "aborted", token, "");
                return;
            } catch (TimeoutException error) {
                if (System.nanoTime() > until) {
                    say("refused", token, word + ": " + error);
                    throw new Lost();
                }
            } catch (RuntimeException error) {
                say("refused", token, word + ": " + error);
                throw new Lost();
            }
        }
    }

    private void recover(Exception error) {
        say("refused", token(), error.toString());
        if (producer == null) {
            return;
        }
        try {
            end(token(), false);
        } catch (Lost lost) {
            drop(Duration.ZERO);
        }
    }

    private void drop(Duration wait) {
        if (producer != null) {
            producer.close(wait);
            producer = null;
        }
    }

    private static void pause(long milliseconds) throws InterruptedException {
        STOPPING.await(milliseconds, TimeUnit.MILLISECONDS);
    }

    private void say(String event, String token, String detail) {
        String line = System.currentTimeMillis() + "\t" + id + "\t" + event + "\t" + token + "\t"
            + detail.replaceAll("\\s+", " ");
        synchronized (OUT) {
            OUT.println(line);
            OUT.flush();
        }
    }
}
