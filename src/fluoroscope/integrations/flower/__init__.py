"""Flower: recorders and mods for anybody's apps, and the site's own supernode.

strategy = record(FedAvg(), "updates")                    # in a ServerApp
app = ClientApp(mods=[record_mod("updates")])             # or in a ClientApp
app = ClientApp(mods=[site_mod(open_site("appetite.toml"))])   # the site's policy, inside the app
# fluoroscope supernode --policy appetite.toml -- ...     # the site's policy, outside the app
"""

from fluoroscope.federation.consistency import consistency_mod
from fluoroscope.federation.guard import guard_mod
from fluoroscope.integrations.flower.defence import defence_mod
from fluoroscope.integrations.flower.meter import meter_mod, site_mod
from fluoroscope.integrations.flower.record import record, record_mod

__all__ = ["consistency_mod", "defence_mod", "guard_mod", "meter_mod", "record", "record_mod", "site_mod"]
