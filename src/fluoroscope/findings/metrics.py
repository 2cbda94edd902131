"""The catalogue of scores: what each is called and means, how it is written, and whether more of it is a leak.

A score's direction is declared here and nowhere else: cells write it, and verdicts, pages, `compare` and `gate` ask it.
"""

from dataclasses import dataclass, replace

from fluoroscope.findings.document import Attacked, End, Kind, Score


@dataclass(frozen=True)
class Metric:
    """A score as a reader meets it. Kinds of cells that mean different things by one name have a metric each.

    Example:
        >>> metric("auc", "client-inference").higher_is_leakier, metric("auc", "federation").higher_is_leakier
        (True, None)
        >>> metric("psnr").title
        'PSNR (dB)'
    """

    name: str
    """Its key in findings.json."""
    label: str
    meaning: str
    kinds: tuple[Kind, ...]
    """Of the cells that measure it."""
    higher_is_leakier: bool | None
    """Whether more of it is worse for the patients; None: it says nothing of leaks."""
    format: str = ".3f"
    unit: str | None = None
    """None: a share, a count or a number without one."""
    in_words: str = ""
    """What a reader who knows no abbreviations is told; the label where it is none."""

    @property
    def title(self) -> str:
        """The label with its unit, for a heading."""
        return self.label if self.unit is None else f"{self.label} ({self.unit})"

    @property
    def worse_end(self) -> End:
        """The end of an interval that is worse for the patients."""
        return "low" if self.higher_is_leakier is False else "high"

    @property
    def better_end(self) -> End:
        """The end of an interval that is better for the patients."""
        return "high" if self.higher_is_leakier is False else "low"

    def leak(self, value: float) -> float:
        """The value, turned so that it grows with the leak."""
        return -value if self.higher_is_leakier is False else value


_INFERENCE: tuple[Kind, ...] = ("client-inference", "membership", "source")
_RIGHT = "Right answers"
METRICS = (
    Metric("leak", "Leak", "RDLV against the own patients' images less RDLV against other patients': what a "
           "reconstruction shows of its own patient alone; at chance 0", ("reconstruction",), True),
    Metric("told_apart", "Told apart", "share of the reconstructions whose nearest image, of all patients', is one of "
           "the own patient's", ("reconstruction",), True),
    Metric("line_up", "Line-up", "share of the line-ups, the own patient and three others, in which the reconstruction "
           "is nearest to the own one", ("reconstruction",), True),
    Metric("found", "Found", "attacked images that are the nearest, of all patients', to some reconstruction",
           ("reconstruction",), True, ".0f"),
    Metric("gave_up", "Gave up", "victims of whom the attack itself says that it has nothing: they count as the prior, "
           "as nobody told apart", ("reconstruction",), None, ".0f"),
    Metric("rdlv", "RDLV", "how much nearer a reconstruction comes to a private image than a public image does; 0 or "
           "less: no nearer", ("reconstruction",), True),
    Metric("null", "RDLV of others", "RDLV of the same reconstructions against other patients' images: what is no leak",
           ("reconstruction",), None),
    Metric("p_value", "p-value", "how often guesses would score as high on patients whom they are not about",
           ("reconstruction",), None),
    Metric("ssim", "SSIM", "likeness of a reconstruction and its original; 1 is the same picture",
           ("reconstruction", "crafted-model"), True),
    Metric("ssim_prior", "SSIM of the prior", "likeness of the prior and the original: what the attacker has without "
           "an update", ("reconstruction",), None),
    Metric("iip", "IIP", "share of the attacked images that a reconstruction points to: among the images of all "
           "clients, such an image is the nearest to some reconstruction", ("reconstruction",), True),
    Metric("recognised", "Recognised", "attacked images that a reconstruction points to", ("reconstruction",), True,
           ".0f"),
    Metric("rehearsal_leak", "Leak in rehearsal", "leak of the same attack on simulated clients of this training: what "
           "can be said of a guess whose truth is not here", ("reconstruction",), None),
    Metric("rehearsal_told_apart", "Told apart in rehearsal", "share of the simulated clients' reconstructions that "
           "are told apart", ("reconstruction",), None),
    Metric("rehearsal_p_value", "p-value in rehearsal", "how often chance does as well on the simulated clients",
           ("reconstruction", "label-counts"), None),
    Metric("rehearsal_gain", "Gain in rehearsal", "gain of the same attack on simulated clients of this training: what "
           "can be said of a guess whose truth is not here", ("label-counts",), None),
    Metric("images", "Images", "images attacked", ("reconstruction", "crafted-model"), None, ".0f"),
    Metric("accuracy", "Accuracy", "share of test images that the model classifies rightly", ("federation",), None),
    Metric("accuracy", "Accuracy", "share of cases that the attacker tells rightly", ("membership", "source"), True,
           in_words=_RIGHT),
    Metric("f1", "F1", "the model's mean F1 over the classes", ("federation",), None),
    Metric("precision", "Precision", "the model's mean precision over the classes", ("federation",), None),
    Metric("auc", "AUC", "area under the ROC curve; a coin reaches a half", ("federation",), None),
    Metric("auc", "AUC", "area under the ROC curve; a coin reaches a half", _INFERENCE, True, in_words=_RIGHT),
    Metric("loss", "Loss", "the model's loss on the test images", ("federation",), None),
    Metric("epsilon", "ε", "privacy spent; smaller is stronger", ("federation",), True, ".3g"),
    Metric("epsilon", "ε of a round", "claimed for one round: an upper bound", ("claim",), None, ".3g"),
    Metric("epsilon_lower", "ε proved", "what canaries prove of one round at 95 %, if the noise is drawn as claimed, "
           "of whatever size: ε is at least this. Above the ε of a round, the defence does not do what it says",
           ("claim",), True, ".3g"),
    Metric("epsilon_lower_any", "ε proved of any mechanism", "the same without any assumption on the noise; few games "
           "prove little", ("claim",), True, ".3g"),
    Metric("reconstruction_bound", "Told apart at most", "how often any reconstruction from one round can be told "
           "apart from other patients, by the claim", ("claim",), None),
    Metric("advantage", "Advantage", "true positives less false positives at the best threshold; guessing reaches 0",
           _INFERENCE, True),
    Metric("p_value", "p-value", "how often guessing alone would do as well", _INFERENCE, None),
    Metric("rate", "Recovery rate", "share of a batch that is read out of the update", ("crafted-model", "guard"),
           True),
    Metric("recovered", "Recovered", "images read out of the update", ("crafted-model", "guard"), True, ".0f"),
    Metric("psnr", "PSNR", "likeness of what was read out and its original", ("crafted-model",), True, ".1f", "dB"),
    Metric("wrong", "Wrong", "images read out that are none of the client's", ("crafted-model",), None, ".0f"),
    Metric("tpr", "True positives", "share of the members that are found while at most the stated share of the others "
           "is accused", ("membership",), True),
    Metric("fpr", "False positives allowed", "share of the non-members that may be accused: a hundredth, or the least "
           "that their number allows", ("membership",), None),
    Metric("members", "Members", "images asked about that were trained on; as many others were not", ("membership",),
           None, ".0f"),
    Metric("records", "Records", "images asked about", ("source",), None, ".0f"),
    Metric("p_value", "p-value", "how often guesses dealt at random would be as near", ("label-counts",), None),
    Metric("gain", "Gain over the public mix", "how much nearer the guessed shares of the classes are to a client's "
           "than the shares among public images; 0 or less: nothing was learned", ("label-counts",), True),
    Metric("error", "Error of the shares", "mean absolute error of the guessed share of a class", ("label-counts",),
           False),
    Metric("error_public", "Error of the public mix", "the same of the shares among public images: what the attacker "
           "knows without an update", ("label-counts",), None),
    Metric("error_clients", "Error of the shares, clients", "the same of the recorded updates alone, without the "
           "stand-ins", ("label-counts",), False),
    Metric("visible", "Metrics in the clear", "numbers that a client tells the server of its own images in a round, "
           "beside its update", ("metrics",), True, ".0f"),
    Metric("counted", "Exact number of images", "clients that tell how many images they train on", ("metrics",), True,
           ".0f"),
    Metric("single", "Loss of one patient", "clients with one training image: the loss that they tell is that "
           "patient's", ("metrics",), True, ".0f"),
    Metric("refused", "Refused", "clients that refused the model", ("guard",), False, ".0f"),
    Metric("clients", "Clients", "clients that were asked", ("guard",), None, ".0f"),
)  # fmt: skip
"""Every score that an audit writes."""

LEAKS: dict[Kind, tuple[str, ...]] = {
    "reconstruction": ("leak", "told_apart", "rdlv", "iip"),
    "crafted-model": ("rate",),
    "client-inference": ("auc",),
    "membership": ("auc", "accuracy"),
    "source": ("auc", "accuracy"),
    "label-counts": ("gain",),
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
    "label-counts": "Label counts",
    "metrics": "Clients' metrics",
    "claim": "Claim",
}

ATTACKED: dict[Attacked, str] = {
    "recorded update": "Measured on the update that the client sent while the federation trained, as it was recorded.",
    "stand-ins": "Measured on stand-ins: other patients, whom the model had not seen, in the client's place, who train "
    "as the client does. None of the client's own images was attacked.",
}
"""What a reconstruction's numbers were measured on, in words for everybody."""


def declared(name: str, kind: Kind | None = None) -> tuple[Metric, ...]:
    """The metrics of this name, in cells of this kind or of any."""
    return tuple(each for each in METRICS if each.name == name and (kind is None or kind in each.kinds))


def metric(name: str, kind: Kind | None = None) -> Metric:
    """The metric of this name in cells of this kind, else in any; one that is not declared is called by its name."""
    unknown = Metric(name, name[:1].upper() + name[1:].replace("_", " "), "", (), None)
    return (*declared(name, kind), *declared(name), unknown)[0]


def metric_of(kind: Kind, name: str, score: Score) -> Metric:
    """The metric of a score that was read; where it is not declared, the file's own word on the direction holds."""
    found = metric(name, kind)
    return found if declared(name, kind) else replace(found, higher_is_leakier=score.higher_is_leakier)
