"""What RoCE experiments share: a switch that writes records, what they must be, what takes them."""
