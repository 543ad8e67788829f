package kafka.eos.telemetry;

import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/** For {@code metric.reporters} of brokers of Kafka 3.7 to 4.1, which do not say how often a client pushes (KIP-714). */
@SuppressWarnings("deprecation") // since 4.2, for which TelemetryReporter is
public final class TelemetryReporter37 extends BaseReporter implements ClientTelemetry {
    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return (context, payload) -> forwarder().forward(context, payload, 0);
    }
}
