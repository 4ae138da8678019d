"""`minip4 link`: the link component as a process of its own."""
