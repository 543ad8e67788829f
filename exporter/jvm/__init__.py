"""Reads of JVMs by a Jolokia agent or a jmx_exporter, behind one interface."""
