"""Shared parts of the gallery: reproductions of published methods, one per experiment."""
