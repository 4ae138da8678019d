"""What INT experiments share."""
