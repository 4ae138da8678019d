"""`minip4 link`: the link component as a separate process."""
