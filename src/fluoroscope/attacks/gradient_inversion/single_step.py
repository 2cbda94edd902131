"""Many steps told as one typical step: for clients with more images than an attacker can guess."""

from dataclasses import replace

from fluoroscope.types import Observation

STEPS = 2
"""An attacker guesses every image of a round of so many steps; of a longer one, those of a typical batch."""


def as_single_step(observation: Observation, images: int) -> Observation:
    """What a client with one batch of so many images would have sent: P1's attack on its clients of 8 to 512 images.

    The update is the mean of the steps', and the buffers are moved once, towards the mean statistics that the whole
    round moved them to: s = (r_T - (1-m)^T r_0) / (1 - (1-m)^T), so r' = r_0 + m (s - r_0).
    """
    training, update = observation.training, observation.update
    assert training is not None
    assert update is not None
    steps, momentum = training.steps, training.batchnorm_momentum
    share = momentum / (1 - (1 - momentum) ** steps)
    before, after = observation.buffers_before or {}, observation.buffers_after
    moved = None
    if after is not None:
        moved = {
            name: before[name] + share * (value - before[name]) if value.is_floating_point() else value
            for name, value in after.items()
        }
    return replace(
        observation,
        training=replace(training, images=images, batch_size=images, epochs=1, max_steps=None),
        update={name: value / steps for name, value in update.items()},
        buffers_after=moved,
        labels=None,
    )


def as_single_step_if_long(observation: Observation) -> Observation:
    """As it is where an attacker can guess every image of the round; as one step where it has more than that."""
    training = observation.training
    assert training is not None
    if training.steps <= STEPS:
        return observation
    return as_single_step(observation, min(training.batch_size, training.images))
