"""Controllers of Direct Telemetry Access (DTA): translators, reporters and stores."""
