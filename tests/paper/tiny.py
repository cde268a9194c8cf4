"""Settings in which every item takes a second or two."""

from research.paper.settings import Settings

TINY = Settings(
    label="tiny",
    participants=(5, 8),
    repetitions=2,
    records=(1, 3),
    more_participants=(20, 40),
    counted_participants=(50,),
    accuracy_participants=12,
    accuracy_repetitions=3,
    epsilons=(1.0, 2.0),
    thetas=(0.0, 0.2),
    rounds=1,
    dropouts=(0.0, 0.2),
    dropout_participants=10,
    dropout_repetitions=1,
    ready_thetas=(0.05, 0.2),
    validated_participants=(5,),
    two_server_participants=(8,),
    rows=(20, 60),
    rows_participants=5,
    studies=("adult-5",),
    simulated="adult-5",
)
