"""Mininet topologies: checks, link properties, MTU and routes."""
