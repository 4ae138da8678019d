"""The P4Runtime server of minip4 and `minip4 switch`: engine, ports and control plane."""
