"""Importers of network descriptions in the formats of other tools, for `telemark run`."""
