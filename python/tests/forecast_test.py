import math
import pathlib
import re
import tempfile
import unittest

from evermoe import forecast

SOURCES = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = SOURCES / "examples" / "clusters" / "a100-12x8.toml"
SPARSE = {"protection.strategy": "sparse", "protection.window": 4}


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


class Tiers(unittest.TestCase):
    PEERS, STORAGE = forecast.Tier("peers", 0.5, 20, 2), forecast.Tier("storage", 30, 300, 120)

    def test_alone_a_tier_has_youngs_interval(self):
        plan = forecast.tier_intervals([self.STORAGE], [forecast.Failure("any", 36000, "storage")])
        self.assertEqual([interval.tier for interval in plan.intervals], ["storage"])
        self.assertAlmostEqual(plan.intervals[0].work_s, math.sqrt(2 * 30 * 36000), delta=1)
        self.assertTrue(plan.reasons)

    def test_saves_nest(self):
        plan = forecast.tier_intervals([self.PEERS, self.STORAGE], [forecast.Failure("node", 7200, "peers"), forecast.Failure("whole job", 864000, "storage")])
        peers, storage = plan.intervals
        self.assertAlmostEqual(storage.work_s, storage.every * peers.work_s)
        self.assertLess(plan.waste, 0.1)

    def test_bad_input(self):
        for tiers, failures, message in [
            ([], [forecast.Failure("any", 1, "x")], '"x" is not one of the tiers'),
            ([self.PEERS], [], "failures: none given"),
            ([forecast.Tier("peers", -1, 0, 1)], [forecast.Failure("any", 10, "peers")], "peers.save_s: -1"),
            ([self.PEERS], [forecast.Failure("any", 0, "peers")], "any.mtbf_s: 0 is not a positive time"),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                forecast.tier_intervals(tiers, failures)


class Run(unittest.TestCase):
    def test_a_job_is_forecast_as_configured(self):
        result = forecast.run("gpt-moe-7.3b", CLUSTER, settings=SPARSE, runs=2)
        self.assertEqual(result["strategy"]["window"], 4)
        self.assertEqual(result["gpus"], 96)
        self.assertEqual(result, forecast.run("gpt-moe-7.3b", str(CLUSTER), settings=SPARSE, runs=2))
        self.assertNotEqual(result["estimates"], forecast.run("gpt-moe-7.3b", CLUSTER, settings=SPARSE, runs=2, seed=9)["estimates"])

    def test_a_cluster_may_be_a_mapping(self):
        cluster = {"cluster": {"nodes": 12}, "gpu": {"name": "A100-80GB"}, "links": {"nic_gb_per_second": 25, "storage_gb_per_second": 5},
                   "failures": {"node_mtbf_hours": 3692.3, "repair_hours": 24}}
        self.assertEqual(forecast.run("gpt-moe-7.3b", cluster, runs=2), forecast.run("gpt-moe-7.3b", CLUSTER, runs=2))
        self.assertEqual(cluster["gpu"], {"name": "A100-80GB"})  # not changed

    def test_a_recorded_trace_is_played(self):
        trace = SOURCES / "data" / "planner" / "infinitehbd-fault-events.csv"
        result = forecast.run("gpt-moe-7.3b", CLUSTER, failures=trace)
        self.assertEqual(result["estimates"]["ettr"]["runs"], 1)
        self.assertAlmostEqual(result["simulated_seconds"] / 86400, 348, delta=2)

    def test_more_failures_cost_more(self):
        often, rarely = (forecast.run("gpt-moe-7.3b", CLUSTER, failures=f"node_mtbf_hours={hours},repair_hours=0,whole_job_node_hours=0", runs=2) for hours in (12, 1200))
        self.assertLess(often["estimates"]["ettr"]["mean"], rarely["estimates"]["ettr"]["mean"])
        self.assertEqual(often["job_mtbf_seconds"], 3600)

    def test_bad_input(self):
        for arguments, options, message in [
            (("nothing", CLUSTER), {}, 'model: found "nothing"'),
            (("gpt-moe-7.3b", "nothing"), {}, 'cluster: found "nothing"'),
            (("gpt-moe-7.3b", {"cluster": {"nodes": 0}}), {}, "cluster.nodes: found"),
            (("gpt-moe-7.3b", CLUSTER), {"settings": {"train.stps": 1}}, "train.stps"),
            (("gpt-moe-7.3b", CLUSTER), {"runs": 0}, "runs: 0 is not"),
            (("gpt-moe-7.3b", CLUSTER), {"replacement": "magic"}, 'replacement: "magic"'),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                forecast.run(*arguments, **options)
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(ValueError, "no such file"):
            forecast.run("gpt-moe-7.3b", pathlib.Path(folder) / "none.toml")
        with self.assertRaisesRegex(RuntimeError, "host memory"):
            forecast.run("gpt-moe-7.3b", CLUSTER, settings={"protection.strategy": "dense", "protection.memory_budget": "1MiB"})


class Plan(unittest.TestCase):
    def test_the_best_scores_best(self):
        plan = forecast.plan("gpt-moe-7.3b", CLUSTER, runs=2, window=5, elastic=False)
        self.assertTrue(plan["reasons"])
        for other in plan["others"]:
            self.assertLessEqual(other["score"], plan["best"]["score"])
            self.assertNotEqual(other["strategy"]["replacement"], "elastic")
        with self.assertRaisesRegex(ValueError, "copies: found 9"):
            forecast.plan("gpt-moe-7.3b", CLUSTER, copies=9)


    def test_a_layout_may_be_wished_for(self):
        plan = forecast.plan("qwen1.5-moe-a2.7b", {"cluster": {"nodes": 4}}, runs=1, sequences=256, tensor_parallel=2, recompute="layer")
        self.assertEqual((plan["job"]["tensor_parallel"], plan["job"]["recompute"], plan["batch"]), (2, "layer", "as given"))
        self.assertIsNone(plan["today"])
        with self.assertRaisesRegex(ValueError, 'recompute: found "some"'):
            forecast.run("gpt-moe-7.3b", CLUSTER, recompute="some")


class MeasuredRecovery(unittest.TestCase):
    PROFILE = SOURCES / "data" / "results" / "job-profile.toml"

    def test_it_takes_the_place_of_the_clusters(self):
        text = self.PROFILE.read_text()
        measured = float(re.search(r"restart_seconds = (\S+)", text[text.index("[recovery]"):])[1])
        found = forecast.run("gpt-moe-7.3b", CLUSTER, recovery=self.PROFILE, settings=SPARSE, runs=1)
        self.assertEqual(found["strategy"]["recovery"]["restart_seconds"], measured)
        without = forecast.run("gpt-moe-7.3b", CLUSTER, settings=SPARSE, runs=1)
        self.assertGreater(without["strategy"]["recovery"]["restart_seconds"], measured)
        row, slower = (forecast.what_if("mixtral-8x7b", "A100-80GB", [1024], recovery=file, runs=1)[0] for file in (self.PROFILE, ""))
        self.assertLess(row["downtime_per_interruption_seconds"], slower["downtime_per_interruption_seconds"])

    def test_a_file_without_one_is_refused(self):
        for function in (forecast.run, forecast.plan):
            with self.assertRaisesRegex(ValueError, r"a100-12x8\.toml"):
                function("gpt-moe-7.3b", CLUSTER, recovery=CLUSTER, runs=1)


class WhatIf(unittest.TestCase):
    def test_to_131072_gpus(self):
        rows = forecast.what_if("mixtral-8x7b", {"failures": {"whole_job_node_hours": 0}}, [1024, 131072], runs=1)
        self.assertEqual([row["gpus"] for row in rows], [1024, 131072])
        # 6.5 failures per 1000 node-days.
        self.assertAlmostEqual(rows[1]["job_mtbf_seconds"], 1000 * 86400 / 6.5 / 16384, delta=1)
        self.assertGreater(rows[0]["ettr"]["mean"], rows[1]["ettr"]["mean"])
        self.assertTrue(math.isfinite(rows[1]["tokens_per_second"]))
        with self.assertRaisesRegex(ValueError, "12"):
            forecast.what_if("mixtral-8x7b", "A100-80GB", [12])


if __name__ == "__main__":
    unittest.main()
