"""What AM-PM experiments share."""
