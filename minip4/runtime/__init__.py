"""The P4Runtime server of minip4, and `minip4 switch` with engine, ports and control plane."""
