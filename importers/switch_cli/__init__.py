"""Scripts of simple_switch_CLI's commands, carried out over P4Runtime."""
