"""What the brain makes of reports: observations, predictions, heavy keys, costs."""
