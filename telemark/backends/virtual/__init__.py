"""Backend in virtual time: one event queue, one process, no root."""
