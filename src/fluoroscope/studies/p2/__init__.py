"""P2: MediLeak, a malicious server behind secure aggregation."""
