"""Results of experiments: samples, checks, figures, and the report page."""
