"""P4's own loop: one image after another, autograd's double backward, `torch.optim.LBFGS`."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.attacks.common.initialisation import Initialisation
from fluoroscope.attacks.common.running import OnIteration, silent
from fluoroscope.attacks.gradient_inversion.distances import Distance
from fluoroscope.rng import generator
from fluoroscope.types import Capability, Observation, Reconstruction


@dataclass(frozen=True)
class OneByOne:
    """The baseline beside which the engine is measured; the same observations, start and distance.

    Every image's draws are its own, whichever others are attacked.
    """

    distance: Distance
    start: Initialisation
    iterations: int
    lr: float = 0.1
    line_search: bool = False
    """The strong Wolfe search of torch's L-BFGS. P4, and DLG before it, go without."""
    snapshots: int = 1
    evaluations: list[int] | None = None
    """Where given, counts each image's evaluations: for benchmarks."""

    @property
    def needs(self) -> frozenset[Capability]:
        return frozenset({Capability.UPDATE, Capability.TRAINING})

    def run(
        self,
        observations: Sequence[Observation],
        rng: torch.Generator,
        on_iteration: OnIteration = silent,
        checkpoint: Checkpoint | None = None,
    ) -> list[Reconstruction]:
        """A reconstruction for every observation."""
        seed = int(torch.randint(2**62, (), generator=rng))
        found = []
        for number, seen in enumerate(observations):
            found.append(self._one(seen, generator(seed, "image", number)))
            on_iteration(number, len(observations))
        return found

    def _one(self, seen: Observation, rng: torch.Generator) -> Reconstruction:
        assert seen.network is not None
        assert seen.state_before is not None
        assert seen.update is not None
        network = seen.network.build()
        network.load_state_dict({**network.state_dict(), **seen.state_before})
        names = [name for name, _ in network.named_parameters()]
        theirs = [-seen.update[name] for name in names]
        begun = self.start(seen, (1, *seen.network.input_shape), rng)
        image = begun.clone().requires_grad_()
        logits = self.start(seen, (1, seen.network.outputs), rng).requires_grad_()
        search = "strong_wolfe" if self.line_search else None
        optimiser = torch.optim.LBFGS([image, logits], lr=self.lr, line_search_fn=search)
        count = 0

        def closure() -> Tensor:
            nonlocal count
            count += 1
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(network(image), logits.softmax(1))
            ours = torch.autograd.grad(loss, list(network.parameters()), create_graph=True)
            gap = self.distance(ours, theirs)
            gap.backward()  # type: ignore[no-untyped-call]
            return gap

        snapshots, trace = {}, []
        for iteration in range(1, self.iterations + 1):
            trace.append(float(optimiser.step(closure).detach()))  # type: ignore[no-untyped-call]
            if iteration % self.snapshots == 0 or iteration == self.iterations:
                snapshots[iteration] = image.detach().clone()
        if self.evaluations is not None:
            self.evaluations.append(count)
        last = image.detach().clone()
        diverged = not bool(last.isfinite().all())
        return Reconstruction(
            last, None, trace[-1], trace=tuple(trace), start=begun, last=last, snapshots=snapshots, diverged=diverged
        )
