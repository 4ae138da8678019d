"""What experiments share: network, traffic, ground truth, results, plots."""
