"""An audit for other readers than a person at a screen: pipelines, committees, model repositories, trackers."""
