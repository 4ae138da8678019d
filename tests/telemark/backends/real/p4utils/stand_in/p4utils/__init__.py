"""What p4-utils offers, as far as this project uses it: for tests where it is not installed."""
