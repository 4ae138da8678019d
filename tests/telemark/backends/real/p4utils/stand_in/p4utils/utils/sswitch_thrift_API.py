"""Empty stand-in; tests check which module a script imports."""
