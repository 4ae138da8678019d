"""run_all.sh: runs all experiments sequentially, and skips those that are up to date."""
