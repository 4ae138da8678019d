"""What an experiment leaves: samples, checks, figures, and the page that shows them."""
