"""Checks of the settings that exactly-once depends on."""
