"""Whole systems, of controllers and collectors together, brought up and asked."""
