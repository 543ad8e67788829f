package kafka.eos.telemetry;

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;

/** A metrics reporter that reports none of the broker's metrics: it exists to be asked for a receiver of clients' ones. */
abstract class BaseReporter implements MetricsReporter {
    private volatile Forwarder forwarder;

    /** The forwarder, once configured. */
    final Forwarder forwarder() {
        return forwarder;
    }

    @Override
    public void configure(Map<String, ?> configs) {
        forwarder = new Forwarder(configs);
    }

    @Override
    public void init(List<KafkaMetric> metrics) {}

    @Override
    public void metricChange(KafkaMetric metric) {}

    @Override
    public void metricRemoval(KafkaMetric metric) {}

    @Override
    public void close() {
        Forwarder current = forwarder;
        if (current != null) {
            current.close();
        }
    }
}
