"""What a sample looks like to a network this time: augmentation of whole batches, a pure function of its keys."""
