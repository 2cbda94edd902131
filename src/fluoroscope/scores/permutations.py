"""P-values of a permutation test: what is seen, beside what random assignments give."""

PERMUTATIONS = 2000


def permutation_p_value(reached: int, permutations: int = PERMUTATIONS) -> float:
    """How often chance does as well, `reached` of so many random assignments having done so.

    What was seen is one of the assignments itself, so the value is never 0.

    Example:
        >>> permutation_p_value(0, permutations=99)
        0.01
    """
    return (1 + reached) / (1 + permutations)
