package kafka.eos.telemetry;

import org.apache.kafka.server.telemetry.ClientTelemetryExporter;
import org.apache.kafka.server.telemetry.ClientTelemetryExporterProvider;

/** For {@code metric.reporters} of brokers of Kafka 4.2 and later (KIP-1215). */
public final class TelemetryReporter extends BaseReporter implements ClientTelemetryExporterProvider {
    @Override
    public ClientTelemetryExporter clientTelemetryExporter() {
        return (context, payload) ->
                forwarder().forward(context.authorizableRequestContext(), payload, context.pushIntervalMs());
    }
}
