"""The HTTP endpoint: connections and TLS, who may come in, the page. ``exporter.web.app`` puts it together."""
