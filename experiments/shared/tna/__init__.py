"""Published TNA programs: compilation of fetched programs, and models of their state."""
