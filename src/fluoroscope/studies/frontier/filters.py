"""The filters that NVFlare and Flower ship, as they ship them: the one-image client behind each, to an attacker that
knows it."""

from fluoroscope.studies.frontier.adaptive import entered
from fluoroscope.studies.p1.federation import Named

FILTERS: tuple[tuple[Named, ...], ...] = (
    (),
    (("percentile-privacy", ()),),
    (("svt-privacy", ()),),
    # Flower gives no defaults.
    (("local-dp", (("clip_norm", 1.0), ("sensitivity", 1.0), ("epsilon", 1.0))),),
)

entered(
    "frontier/filters",
    "The one-image client behind the filters that NVFlare and Flower ship",
    "Named after privacy, and set as they come: what each leaves to an attacker that simulates it.",
    ("ridge",),
    FILTERS,
)
