"""What P3 says client inference leads to: was this image trained on, and by which hospital?"""

from fluoroscope.studies.p3 import membership_figures as draw
from fluoroscope.studies.p3.candidates import PRIVACIES
from fluoroscope.studies.p3.membership import Attack, Membership, Source
from fluoroscope.studies.p3.shadow_rounds import Seat
from fluoroscope.studies.study import Size, Study, enter

SIZES: tuple[Size, ...] = ("small", "paper")
SEATS: tuple[Seat, ...] = ("server", "client")
ATTACKS: tuple[Attack, ...] = ("loss", "lira")

enter(
    Study(
        "p3/membership",
        "Membership inference from the server's and from a client's seat",
        "P3 names it as what client inference leads to, and does not measure it. A defence at the server cannot change "
        "what the server sees.",
        {
            size: [
                Membership(seat, attack, privacy, size) for seat in SEATS for attack in ATTACKS for privacy in PRIVACIES
            ]
            for size in SIZES
        },
        draw.membership,
        curves=True,
        parallel=True,
    ),
    Study(
        "p3/source",
        "Source inference: whose image is it?",
        "Hu et al. 2021: the client whose model has the lowest loss on a record is its owner. The server needs to see "
        "each client's model.",
        {size: [Source(privacy, size) for privacy in PRIVACIES] for size in SIZES},
        draw.source,
        parallel=True,
    ),
)
