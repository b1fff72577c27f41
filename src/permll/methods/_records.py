"""Every method there is: one record each, from which help texts, tables and tests are made."""

from permll.methods._info import MethodInfo

RECORDS = (
    MethodInfo(
        name="ce",
        title="Cross-entropy",
        idea="plain training on the given labels",
        year=None,
        paper="The usual training on the given labels.",
        home="permll.methods.ce:CrossEntropy",
    ),
    # robust losses
    # transition matrices
    # noise layers
    # mentors
    # memories and refurbished labels
    # mixtures
    MethodInfo(
        name="permll",
        title="PermLL",
        idea="each sample learns its label swap",
        year=2023,
        paper="Alsubaihi et al., On Robust Learning from Noisy Labels: A Permutation Layer Approach, AAAI 2023",
        home="permll.methods.permll:PermLL",
        needs=("index",),
        state="α, c numbers",
        deviations=(
            "α moves by each sample's own gradient: the paper's η / B, independent of the size of a (last) batch.",
            "Warm-up of n steps is n steps; the authors' code takes n + 1.",
        ),
    ),
)
