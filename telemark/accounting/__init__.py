"""What really happened: captures, and books in which everything is accounted for."""
