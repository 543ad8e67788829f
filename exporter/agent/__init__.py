"""The composition root: from settings to running sources, exposition and the HTTP endpoint."""
