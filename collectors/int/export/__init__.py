"""Exporters of the collector's findings to other systems."""
