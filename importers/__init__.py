"""Importers of networks that are described for other tools, run by `telemark run`."""
