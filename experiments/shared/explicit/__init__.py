"""Code shared by experiments on explicit flow measurements."""
