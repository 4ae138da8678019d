"""DTA, managed: reporters, translators and collectors from one file, up, asked and down."""
