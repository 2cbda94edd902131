"""The image behind a vision transformer's update, patch by patch, from the gradients of its embedding.

Tokens are W x_p + b + e_p: the patch x_p at position p, embedded, plus the position's own vector. The gradient of e_p
is the token's, g_p, and that of W is sum_p g_p (x) x_p. Of one image both are known, so the patches follow from a
linear system with a row per dimension of a token and an unknown per patch. APRIL (Lu et al. 2022) reads the same
position gradients one layer further, at an attention without normalisation; here what stands behind the tokens does not
matter, nor how many steps of SGD were taken: pixels do not move with the weights.
"""

from fluoroscope.attacks.closed_form.patches.attack import April

__all__ = ["April"]
