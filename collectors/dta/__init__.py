"""Direct Telemetry Access: stores in memory that switches write to, and what they can be asked."""
