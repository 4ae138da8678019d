"""Importers for `telemark run`. They read network descriptions in the formats of other tools."""
