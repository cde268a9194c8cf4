"""What a release costs: exact noise, zCDP accounting and a participant's own ledger."""
