"""The status that the page, ``/api/v1/status`` and the terminal show: document types, builders, page and routes."""
