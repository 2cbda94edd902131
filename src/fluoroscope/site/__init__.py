"""At the site's own door: what comes in is inspected, what goes out is measured, and a policy of the site decides."""
