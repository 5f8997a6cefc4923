"""A kettle that whistles when its water boils."""

BOILING = 100  # degrees Celsius


def warmed(temperature, minutes):
    """How hot water gets on the fire."""
    return min(temperature + 8 * minutes, BOILING)


def whistles(temperature):
    """It whistles as soon as its water boils."""
    return temperature > BOILING
