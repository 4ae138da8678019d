"""The engine: BMv2 JSON to C, and the switch that runs it."""
