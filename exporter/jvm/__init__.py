"""Reading JVMs, by a Jolokia agent or by the text of a jmx_exporter, as if both were one."""
