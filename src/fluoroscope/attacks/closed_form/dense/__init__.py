"""The inputs of a dense layer, unmixed from its gradient (the cocktail party: Kariyappa et al. 2023).

The gradient of a dense layer's weights is dW = sum_i dY_i (x) x_i over the images i. With fewer images than rows, its
row space is the span of the inputs x_i, and all that is left to find is which mixtures of a basis are single images.

1. `layers`: the dense layers of a network, and what each is given: pixels, what came out of a ReLU, or anything else.
2. `inputs`: the row space, and the bias's gradient beside it, which tells the scale.
3. `independent_components`: the mixtures that are least like a mixture. Pixels of two patients are alike, corners of
   their edges are not, so pixels are compared by their mixed second difference.
"""
