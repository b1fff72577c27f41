"""The scikit-learn estimator: thin over the one training loop and the judgement of labels."""
