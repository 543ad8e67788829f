"""The HTTP endpoint: connections and TLS, authentication, the page. ``exporter.web.app`` combines them."""
