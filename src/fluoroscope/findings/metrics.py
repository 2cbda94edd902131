"""What the scores of an audit are called, how they are written, and which of them say how much leaks."""

from dataclasses import dataclass

from fluoroscope.findings.document import Kind


@dataclass(frozen=True)
class Metric:
    """A score as a reader meets it."""

    title: str
    meaning: str = ""
    format: str = ".3f"


METRICS = {
    "rdlv": Metric("RDLV", "how much nearer a reconstruction comes to a private image than a public image does; 0 or "
                   "less: the attack gained nothing"),
    "ssim": Metric("SSIM", "likeness of a reconstruction and its original; 1 is the same picture"),
    "iip": Metric("IIP", "share of reconstructions that point to the client whose update they came from"),
    "recognised": Metric("Recognised", "reconstructions that are recognised as a patient's image", ".0f"),
    "images": Metric("Images", "images attacked", ".0f"),
    "accuracy": Metric("Accuracy", "share of test images that the model classifies rightly"),
    "f1": Metric("F1", "the model's mean F1 over the classes"),
    "auc": Metric("AUC", "area under the ROC curve; a coin reaches a half"),
    "advantage": Metric("Advantage", "true positives less false positives at the best threshold; guessing reaches 0"),
    "loss": Metric("Loss", "the model's loss on the test images"),
    "epsilon": Metric("ε", "privacy spent; smaller is stronger", ".3g"),
    "rate": Metric("Recovery rate", "share of a batch that is read out of the update"),
    "recovered": Metric("Recovered", "images read out of the update", ".0f"),
    "psnr": Metric("PSNR (dB)", "likeness of what was read out and its original", ".1f"),
    "refused": Metric("Refused", "clients that refused the model", ".0f"),
    "clients": Metric("Clients", "clients that were asked", ".0f"),
}  # fmt: skip

LEAKS: dict[Kind, tuple[str, ...]] = {
    "reconstruction": ("rdlv", "iip"),
    "crafted-model": ("rate",),
    "client-inference": ("auc",),
    "membership": ("auc", "accuracy"),
    "source": ("auc", "accuracy"),
}
"""The scores of each kind of attack that are compared between defences."""

KINDS: dict[Kind, str] = {
    "federation": "Training",
    "reconstruction": "Reconstruction",
    "crafted-model": "Crafted model",
    "guard": "Guard",
    "client-inference": "Client inference",
    "membership": "Membership",
    "source": "Source",
}


def metric(name: str) -> Metric:
    """The metric of this name; one that is not known is called by it."""
    return METRICS.get(name) or Metric(name[:1].upper() + name[1:].replace("_", " "))
