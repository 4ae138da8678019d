"""Backend in virtual time: one event queue in one process; needs no root."""
