"""A kettle that whistles when its water boils."""

BOILING = 100  # degrees Celsius


def warmed(temperature: float, minutes: float) -> float:
    """The water's temperature after some time on the fire. It gets no hotter than boiling."""
    return min(temperature + 8 * minutes, BOILING)


def whistles(temperature: float) -> bool:
    """Whether the kettle whistles: it does as soon as its water boils."""
    return temperature > BOILING
