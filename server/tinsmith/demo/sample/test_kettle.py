"""What a kettle must do."""

import unittest

from kettle import BOILING, warmed, whistles


class KettleTest(unittest.TestCase):
    def test_cold_water_is_silent(self):
        self.assertFalse(whistles(20), "the water is cold and the kettle whistles")

    def test_fire_warms_the_water(self):
        self.assertEqual(warmed(20, 5), 60)

    def test_boiling_water_whistles(self):
        self.assertTrue(whistles(warmed(20, 10)), "the water boils and the kettle is silent")

    def test_a_forgotten_kettle_stays_at_boiling(self):
        self.assertEqual(warmed(20, 600), BOILING)


if __name__ == "__main__":
    unittest.main()
