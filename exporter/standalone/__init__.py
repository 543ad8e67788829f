"""Files that users copy into their own programs. They import nothing of the exporter."""
