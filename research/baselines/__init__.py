"""What the same workload costs by other means."""
