"""Other people's federations: their updates on disk, and the site's door in their frameworks."""
