"""The span attack: features in closed form from an update's row spaces, then the images that have those features.

The gradient of a convolution's weights is dW = sum_p dY_p (x) X_p over the positions p of all images: X_p is the patch
of the layer's input there. With fewer positions than rows, the row space of dW is the span of the patches, and it is
known exactly. Behind a convolution stands BatchNorm, whose derivative sums to zero over the positions: the span is that
of the patches minus their mean.

1. `row_space`: the span, as far as the update shows it above its noise; of one step of Adam by `completion`.
2. `feature_maps`: overlapping patches must agree, so only few feature maps have all their patches in the span: the
   images' own and their mixtures.
3. `unmixing`: features behind a ReLU are zero for half of their values; mixtures are not.
4. `chain`: one convolution further towards the pixels, where the stride hid some of the map.
5. `pixels`: the image whose features these are, by descent.

Span checks have recovered the inputs of dense layers (SPEAR, Dimitrov et al. 2024) and tokens (DAGER, Petrov et al.
2024); here the overlap of patches does it for convolutions, for batches and over several local steps.
"""

from fluoroscope.attacks.closed_form.span.attack import Span

__all__ = ["Span"]
