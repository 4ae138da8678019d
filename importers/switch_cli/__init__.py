"""Interpreter of simple_switch_CLI scripts, which executes the commands over P4Runtime."""
