"""Programs that decide on packets at XDP: dropped, forwarded, shared out, filtered by rules."""
