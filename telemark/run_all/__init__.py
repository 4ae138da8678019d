"""run_all.sh: runs all experiments one after the other, but skips those that are up to date."""
