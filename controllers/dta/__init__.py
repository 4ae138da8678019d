"""Controllers of Direct Telemetry Access (DTA): translators, reporters, stores."""
