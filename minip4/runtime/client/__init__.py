"""Commands that ask a running switch."""
