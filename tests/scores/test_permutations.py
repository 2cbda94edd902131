"""P-values of permutation tests, by scipy's own."""

import numpy as np
import pytest
from scipy.stats import permutation_test

from fluoroscope.scores.permutations import permutation_p_value


def test_what_was_seen_counts_as_one_of_the_assignments():
    rng = np.random.default_rng(0)
    yes, no = rng.normal(1, 1, 8), rng.normal(0, 1, 8)

    def apart(a, b, axis=-1):
        return np.mean(a, axis=axis) - np.mean(b, axis=axis)

    theirs = permutation_test((yes, no), apart, vectorized=True, n_resamples=199, alternative="greater", rng=rng)
    reached = int((theirs.null_distribution >= theirs.statistic - 1e-12).sum())
    assert permutation_p_value(reached, 199) == pytest.approx(theirs.pvalue)
    assert permutation_p_value(0) > 0
