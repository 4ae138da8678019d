"""Scripts of simple_switch_CLI commands, carried out over P4Runtime."""
