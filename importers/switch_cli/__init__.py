"""Interpreter of simple_switch_CLI scripts. It executes the commands over P4Runtime."""
