"""Pure losses and estimators that methods share: tensors in, tensors out, no state."""
