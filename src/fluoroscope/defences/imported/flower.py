"""Flower's mods and strategies as defences, by their class and attributes: Flower itself is not imported.

A Flower app's pyproject.toml has no keys for mods or strategies, so there is no file to read: they are objects.
"""

from collections.abc import Callable
from typing import Any

from fluoroscope.defences.adaptive_clipping import AdaptiveClipping
from fluoroscope.defences.central_dp import CentralDp
from fluoroscope.defences.clipping import Clipping
from fluoroscope.defences.contract import Defence
from fluoroscope.defences.local_dp import LocalDp
from fluoroscope.errors import Unsupported

_NORM_FROM_SERVER = ("fixedclipping_mod", "adaptiveclipping_mod")


def from_flower(part: object) -> list[Defence]:
    """The defences that a `LocalDpMod`, or a strategy in a wrapper for central DP, stands for.

    Args:
        part: a mod of a ClientApp, or a strategy of a ServerApp, as it was made.

    Returns:
        In the order in which an update meets them: a wrapper with clipping at the client is two.

    Raises:
        Unsupported: it is none of those.

    Example:
        >>> from flwr.clientapp.mod import LocalDpMod
        >>> from_flower(LocalDpMod(clipping_norm=1.0, sensitivity=2.0, epsilon=0.5, delta=1e-5))
        [LocalDp(clip_norm=1.0, sensitivity=2.0, epsilon=0.5, delta=1e-05)]
    """
    name = type(part).__name__
    if getattr(part, "__name__", "") in _NORM_FROM_SERVER:
        raise Unsupported(f"{part.__name__} has its norm from the server: give the strategy's wrapper.")  # type: ignore[attr-defined]
    if name not in _READERS:
        raise Unsupported(
            f"{name} is no defence of Flower's that is known here; give one of {', '.join(_READERS)}, or name the "
            "defence in the plan yourself."
        )
    return _READERS[name](part)


def _local_dp(mod: Any) -> list[Defence]:  # noqa: ANN401  # Flower is not imported
    return [LocalDp(mod.clipping_norm, mod.sensitivity, mod.epsilon, mod.delta)]


def _fixed(wrapper: Any) -> list[Defence]:  # noqa: ANN401
    return [CentralDp(wrapper.clipping_norm, wrapper.noise_multiplier)]


def _adaptive(wrapper: Any) -> list[Defence]:  # noqa: ANN401
    # The wrapper keeps what it has left for the mean; the settings say what both are worth together.
    left, count = wrapper.noise_multiplier, wrapper.clipped_count_stddev
    both: float = (left**-2 + (2 * count) ** -2) ** -0.5 if left else 0.0
    return [
        AdaptiveClipping(
            noise_multiplier=both,
            num_sampled_clients=wrapper.num_sampled_clients,
            clip_norm=wrapper.clipping_norm,
            target_clipped_quantile=wrapper.target_clipped_quantile,
            clip_norm_lr=wrapper.clip_norm_lr,
            clipped_count_stddev=count,
        )
    ]


def _at_client(read: Callable[[Any], list[Defence]]) -> Callable[[Any], list[Defence]]:
    """The same, where the client clips before it sends."""
    return lambda wrapper: [Clipping(wrapper.clipping_norm), *read(wrapper)]


_READERS: dict[str, Callable[[Any], list[Defence]]] = {
    "LocalDpMod": _local_dp,
    "DifferentialPrivacyServerSideFixedClipping": _fixed,
    "DifferentialPrivacyClientSideFixedClipping": _at_client(_fixed),
    "DifferentialPrivacyServerSideAdaptiveClipping": _adaptive,
    "DifferentialPrivacyClientSideAdaptiveClipping": _at_client(_adaptive),
}
