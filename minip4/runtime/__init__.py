"""The P4Runtime server of minip4, and `minip4 switch`: an engine, its ports and its control."""
