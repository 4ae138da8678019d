"""Log functions that write to stdout."""

import functools

output = error = warning = functools.partial(print, end="")
