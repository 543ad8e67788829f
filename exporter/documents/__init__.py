"""The JSON that programs read, as types: ``/api/v1/status`` and the commands' ``--output json``.

The code that makes a document returns its type, and the JSON Schemas of docs/schemas come from it. Text below a key is
its description there. Instants are twice in a document: RFC 3339 in UTC, and as ``*_timestamp`` in Unix seconds.
"""
