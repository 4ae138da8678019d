"""Results of experiments: samples, checks, figures, and the results page."""
