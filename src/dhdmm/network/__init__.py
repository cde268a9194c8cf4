"""What both ends of a network round share: identities, rosters, signatures, statuses, refusals."""
