"""The HTTP endpoint: connections and TLS, who may come in, the page. ``exporter.server`` puts it together."""
