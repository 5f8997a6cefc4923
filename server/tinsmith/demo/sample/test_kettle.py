"""What a kettle must do."""

import unittest

from kettle import BOILING, warmed, whistles


class KettleTest(unittest.TestCase):
    """One kettle, from the tap to the tea."""

    def test_cold_water_is_silent(self) -> None:
        assert not whistles(20), "cold water must not make a sound"

    def test_water_gets_warm_on_the_fire(self) -> None:
        assert warmed(20, 5) == 60, "five minutes must warm the water by 40 degrees"

    def test_boiling_water_whistles(self) -> None:
        assert whistles(warmed(20, 10)), "the water boils and the kettle is silent"

    def test_a_forgotten_kettle_stays_at_boiling(self) -> None:
        assert warmed(20, 600) == BOILING, "water gets no hotter than boiling"


if __name__ == "__main__":
    unittest.main()
