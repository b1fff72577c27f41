"""scikit-learn estimator on top of the training loop and the label posterior."""
