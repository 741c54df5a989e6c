import unittest

from evermoe import forecast


class OptimalInterval(unittest.TestCase):
    def test_vectors(self):
        for method, expected in [("young", 1350), ("daly", 1230), ("daly_higher", 1271.19), ("exact", 1271.21)]:
            self.assertAlmostEqual(forecast.optimal_interval(120, 7593.75, method=method), expected, delta=1e-2)

    def test_the_exact_one_has_the_highest_efficiency(self):
        best = forecast.optimal_interval(120, 7593.75, restart_s=60)
        share = forecast.efficiency(best, 120, 7593.75, restart_s=60)
        for work in (0.99 * best, 1.01 * best):
            self.assertLess(forecast.efficiency(work, 120, 7593.75, restart_s=60), share)
        self.assertAlmostEqual(forecast.efficiency(best, 120, 7593.75), 0.83260, delta=1e-5)

    def test_bad_input(self):
        nan = float("nan")
        for arguments, message in [
            ((0, 100), "cost_s: 0 is not a positive time"),
            ((10, -1), "mtbf_s: -1 is not a positive time"),
            ((nan, 100), "cost_s: nan is not a positive time"),
            ((10, 100, -1), "restart_s: -1"),
            ((1e-320, 1e20), "cost_s: nothing against mtbf_s"),
            ((10, 100, 0, "guess"), 'method: "guess" is not young, daly, daly_higher or exact'),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                forecast.optimal_interval(*arguments)
        with self.assertRaisesRegex(ValueError, "work_s: 0"):
            forecast.efficiency(0, 10, 100)


if __name__ == "__main__":
    unittest.main()
