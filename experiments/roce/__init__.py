"""What RoCE experiments share: a switch that writes records, and what they must be."""
