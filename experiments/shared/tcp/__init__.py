"""What experiments with TCP share: see the scripts tcp_*.py."""
