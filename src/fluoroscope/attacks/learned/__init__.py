"""Inverters that learn by simulation: the attacker plays the client's round on public images, defence and all.

What a defence does to an update it does to the simulated ones too, so that whoever learns from them adapts to it; and
where nothing is left of the image, the best estimate is the public mean, which is nobody.

1. `simulated_rounds`: clients of public images, trained and defended by the same function as the true one.
2. `evidence`: what an update shows, as one vector: BatchNorm's statistics, sketches of the layers' changes.
3. `ridge`: the linear way back from evidence to images, its strength by cross-validation over patients.
4. `decoder`: a convolutional network that sharpens what is linear.
5. `map_inversion`: the most probable images, by a prior and a noise that were both learned from the simulation.
6. `feature_decoder`: from the features that the span attack reads, of batches and of several steps; `feature_matching`
   brings its images to those features.
"""
