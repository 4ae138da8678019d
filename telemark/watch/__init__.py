"""Live view of a running network: a local web page, and the process that serves it (--watch)."""
