"""Checks of the settings that exactly-once rests on."""
