"""The site's door as mods of an app: what goes out is measured, and what comes in is inspected.

A mod rides in the app, so whoever writes the app can leave it out: `fluoroscope supernode` stands outside of it.
"""

from typing import TYPE_CHECKING

from flwr.app import Context, Message

from fluoroscope.federation.guard import Mod, Next
from fluoroscope.integrations.flower.exchange import Exchange

if TYPE_CHECKING:
    from fluoroscope.site.control import SiteControl


def meter_mod(control: "SiteControl") -> Mod:
    """A mod that measures every update and lets it leave only as the site's policy says.

    Args:
        control: the site's door, such as `open_site(Path("appetite.toml"))`.

    Returns:
        A mod for `ClientApp(mods=[...])`. A withheld update is an error reply, and its metrics stay as well.
    """

    def mod(message: Message, context: Context, call_next: Next) -> Message:
        exchange = Exchange.of(control, message)
        return exchange.released(call_next(message, context))

    return mod


def site_mod(control: "SiteControl") -> Mod:
    """Both ways: a model that the policy does not admit is not trained, and every update is measured.

    Args:
        control: the site's door, such as `open_site(Path("appetite.toml"))`.
    """

    def mod(message: Message, context: Context, call_next: Next) -> Message:
        exchange = Exchange.of(control, message)
        if not exchange.admitted().passes:
            return exchange.refusal()
        return exchange.released(call_next(message, context))

    return mod
