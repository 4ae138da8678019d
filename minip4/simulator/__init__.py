"""A virtual network: engines, hosts and wires on one event queue."""
