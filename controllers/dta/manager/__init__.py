"""DTA manager: starts a DTA system from one file, and queries the system's stores."""
