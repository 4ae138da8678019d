"""run_all.sh: every experiment, one after the other; what is finished does not run again."""
