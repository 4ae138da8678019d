"""Which module a script gets matters here, not what is in it."""
