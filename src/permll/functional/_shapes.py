"""Types of tensors by shape, which are checked while tests run: a batch of B samples, c classes."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

Logits = Float[Tensor, "batch classes"]
Rows = Float[Tensor, "batch classes"]  # such as probabilities
PerSample = Float[Tensor, " batch"]
Labels = Int[Tensor, " batch"]
Index = Int[Tensor, " batch"]
Mask = Bool[Tensor, " batch"]
Matrix = Float[Tensor, "classes classes"]
