"""Code that the compatibility tests share."""
