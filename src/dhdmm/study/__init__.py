"""What is asked: schema, groupings, workload, and the study file that says it."""
