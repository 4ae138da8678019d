"""DTA manager: starts reporters, translators and collectors from one file, and queries stores."""
