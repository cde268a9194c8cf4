"""What comes out of a round: decoded measurement, answers, exact error bars, tables."""
