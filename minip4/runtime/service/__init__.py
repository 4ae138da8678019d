"""The P4Runtime service: arbitration, streams, pipelines, writes and reads."""
