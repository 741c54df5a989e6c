import itertools
import unittest

import numpy as np

from evermoe import placement


class Allocate(unittest.TestCase):
    def test_the_plan_is_the_corrected_one_of_lazarus(self):
        for loads, nodes, slots, faults, expected in [
            ([1, 1, 1, 5], 4, 2, 1, [1, 1, 1, 5]),
            ([0, 0, 0, 0], 3, 2, 1, [1, 1, 2, 2]),
            ([1, 2, 3, 4], 3, 2, 2, [1, 1, 2, 2]),
            ([7, 1, 4], 2, 4, 5, [4, 2, 2]),
            ([0, 3, 5], 2, 3, 1, [1, 2, 3]),
            ([10, 20, 30, 40, 50, 60, 70, 720], 10, 6, 2, [2, 2, 2, 3, 3, 4, 4, 40]),
        ]:
            replicas = placement.allocate(loads, nodes, slots, faults)
            self.assertEqual(replicas.dtype, np.int64)
            self.assertEqual(replicas.tolist(), expected)

    def test_bad_input_is_one_line(self):
        for arguments, message in [
            (([1, 2, 3, 4, 5], 2, 2, 1), "5 experts do not fit in 2 nodes of 2 slots"),
            (([], 2, 2, 1), "there are no experts to place"),
            (([1, -2], 2, 2, 1), "expert 1 has load -2"),
            (([1, 2], 2**40, 2, 1), "nodes: 1099511627776 does not fit in 32 bits"),
            (([1.5, 2], 2, 2, 1), "loads: integers expected, not float64"),
            (([[1], [2, 3]], 2, 2, 1), "loads: rows of different length"),
            (([[1, 2]], 2, 2, 1), "loads: 2 dimensions instead of 1"),
        ]:
            with self.assertRaises(ValueError) as caught:
                placement.allocate(*arguments)
            self.assertEqual(str(caught.exception), message)
        with self.assertRaises(TypeError):
            placement.allocate([1, 2], 2.5, 2, 1)


def survived_by_enumeration(plan, failures):
    experts = {expert for node in plan for expert in node}
    alive_sets = list(itertools.combinations(plan, len(plan) - failures))
    return sum(set().union(*alive) == experts for alive in alive_sets) / len(alive_sets)


class PlaceAndSurvive(unittest.TestCase):
    def test_the_smallest_case_where_mro_is_not_the_best(self):
        plan = placement.place([2, 2, 2], 3, 2, "mro")
        self.assertEqual(plan, [[0, 1], [0, 1], [2, 2]])
        self.assertAlmostEqual(placement.survival(plan, 1), 2 / 3)
        self.assertEqual(placement.survival(placement.place([2, 2, 2], 3, 2), 1), 1)

    def test_ten_nodes(self):
        replicas = [7, 7, 7, 7, 8, 8, 8, 8]
        for method, expected in [
            ("mro", [0.9917, 0.9667, 0.9167, 0.8333, 0.7, 0.4667]),
            ("mro_q", [1, 1, 1, 1, 0.9833, 0.8222]),
        ]:
            curve = placement.survival_curve(placement.place(replicas, 10, 6, method))
            np.testing.assert_allclose(curve[3:9], expected, atol=5e-5)

    def test_every_method_keeps_the_counts_and_survives_as_enumerated(self):
        random = np.random.default_rng(1)
        for _ in range(30):
            nodes, slots, experts = random.integers(2, 6), random.integers(1, 5), random.integers(1, 7)
            if experts > nodes * slots:
                continue
            replicas = placement.allocate(random.integers(0, 50, experts), nodes, slots, 2)
            for method in ["mro_q", "mro", "spread", "compact"]:
                plan = placement.place(replicas, nodes, slots, method)
                self.assertEqual([len(node) for node in plan], [slots] * nodes)
                np.testing.assert_array_equal(np.bincount(sum(plan, []), minlength=experts), replicas)
                for failures in range(nodes + 1):
                    self.assertAlmostEqual(
                        placement.survival(plan, failures), survived_by_enumeration(plan, failures)
                    )

    def test_half_a_node_cannot_fail(self):
        with self.assertRaises(TypeError):
            placement.survival([[0], [0]], 1.5)

    def test_an_expert_on_no_node_is_lost(self):
        self.assertEqual(placement.survival([[0], [0]], 0, experts=2), 0)

    def test_bad_input(self):
        for call, message in [
            (lambda: placement.place([1, 2], 2, 2), "3 replicas do not fill 2 nodes of 2 slots exactly"),
            (lambda: placement.place([0, 4], 2, 2), "expert 0 has 0 replicas"),
            (lambda: placement.place([2, 2], 2, 2, "best"), "best"),
            (lambda: placement.place([2, 2], 2, 2, faults=-1), "faults: must not be negative"),
            (lambda: placement.survival([[0], [0]], 3), "failures: 3 is not between 0 and 2 nodes"),
            (lambda: placement.survival([], 0, experts=1), "there are no nodes"),
            (lambda: placement.survival([[-1, 0]], 0), "expert -1 of 1"),
        ]:
            with self.assertRaises(ValueError) as caught:
                call()
            self.assertIn(message, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))


class Dispatch(unittest.TestCase):
    def test_vectors(self):
        for tokens, replicas, expected in [
            ([[5], [0], [2]], [[1], [1], [1]], [[[3, 2, 0], [0, 0, 0], [0, 0, 2]]]),
            ([[10], [0], [1]], [[0], [1], [2]], [[[0, 4, 6], [0, 0, 0], [0, 0, 1]]]),
            (
                [[3, 1], [3, 0], [3, 7]],
                [[2, 0], [1, 1], [0, 2]],
                [[[3, 0, 0], [0, 3, 0], [3, 0, 0]], [[0, 1, 0], [0, 0, 0], [0, 1, 6]]],
            ),
        ]:
            counts = placement.dispatch(tokens, replicas)
            self.assertEqual(counts.dtype, np.int64)
            self.assertEqual(counts.tolist(), expected)

    def test_every_token_goes_somewhere_and_replicas_are_even(self):
        random = np.random.default_rng(2)
        for _ in range(50):
            ranks, experts = random.integers(1, 7), random.integers(1, 6)
            tokens = random.integers(0, 40, (ranks, experts))
            replicas = random.integers(0, 3, (ranks, experts))
            replicas[random.integers(0, ranks, experts), np.arange(experts)] += 1
            hosts = np.arange(ranks) // 2
            counts = placement.dispatch(tokens, replicas, hosts)
            np.testing.assert_array_equal(counts.sum(axis=2), tokens.T)
            served, total = counts.sum(axis=1), tokens.sum(axis=0)
            least = total // replicas.sum(axis=0)
            self.assertTrue((served >= least[:, None] * replicas.T).all())
            self.assertTrue((served <= (least + 1)[:, None] * replicas.T).all())

    def test_no_tokens(self):
        self.assertEqual(placement.dispatch([[0, 0]], [[1, 0]]).tolist(), [[[0]], [[0]]])

    def test_bad_input(self):
        for arguments, message in [
            (([[4]], [[0]]), "expert 0 has 4 tokens and no replica"),
            (([[4, 1]], [[1]]), "replicas: shape (1, 1), but tokens have (1, 2)"),
            (([[4]], [[1]], [0, 1]), "2 hosts named for 1 ranks"),
        ]:
            with self.assertRaises(ValueError) as caught:
                placement.dispatch(*arguments)
            self.assertIn(message, str(caught.exception))



class Promises(unittest.TestCase):
    """What place()'s documentation says of faults, on every small case."""

    def cases(self):
        for nodes in range(2, 6):
            for slots in range(1, 4):
                for experts in range(1, min(nodes * slots, 5) + 1):
                    for counts in itertools.combinations_with_replacement(range(1, nodes * slots + 1), experts):
                        if sum(counts) == nodes * slots:
                            yield list(counts), nodes, slots

    def test_no_faults_given_means_as_many_nodes_as_possible(self):
        for counts, nodes, slots in self.cases():
            plan = placement.place(counts, nodes, slots)
            distinct = [sum(expert in held for held in plan) for expert in range(len(counts))]
            self.assertGreaterEqual(min(distinct), min(min(counts), nodes), counts)

    def test_one_fault_is_never_worse_than_mro(self):
        for counts, nodes, slots in self.cases():
            best = placement.survival_curve(placement.place(counts, nodes, slots, faults=1), len(counts))
            plain = placement.survival_curve(placement.place(counts, nodes, slots, method="mro"), len(counts))
            self.assertTrue((best >= plain - 1e-12).all(), counts)

    def test_the_example_of_the_price(self):
        any_two = placement.place([3] * 5, 5, 3)
        self.assertEqual(placement.survival_curve(any_two)[2:4].tolist(), [1.0, 0.5])
        plain = placement.place([3] * 5, 5, 3, method="mro")
        self.assertAlmostEqual(placement.survival(plain, 3), 0.6)



class Migrations(unittest.TestCase):
    def test_every_node_comes_to_hold_what_it_shall(self):
        random = np.random.default_rng(2)
        for _ in range(100):
            nodes, slots, experts = 6, 3, 7
            held = [random.integers(0, experts, slots).tolist() for _ in range(nodes)]
            held[0] = []  # just joined
            wanted = placement.place(placement.allocate(random.integers(1, 90, experts), nodes, slots), nodes, slots)
            moved = placement.migration(held, wanted)
            self.assertEqual(sorted(map(tuple, moved.experts_of_nodes)), sorted(map(tuple, wanted)))
            have = [set(ids) for ids in held]
            for transfer in moved.transfers:
                self.assertIn(transfer.expert, held[transfer.source])
                have[transfer.destination].add(transfer.expert)
            for fetch in moved.unavailable:
                self.assertFalse(any(fetch.expert in ids for ids in held))
                have[fetch.node].add(fetch.expert)
            for node, ids in enumerate(moved.experts_of_nodes):
                self.assertLessEqual(set(ids), have[node])
            for turn in range(moved.rounds):
                for side in ("source", "destination"):
                    ends = [getattr(transfer, side) for transfer in moved.transfers if transfer.round == turn]
                    self.assertEqual(len(ends), len(set(ends)))
            kept = placement.migration(held, wanted, keeps_nodes=True)
            self.assertEqual(kept.experts_of_nodes, wanted)
            self.assertLessEqual(len(moved.transfers) + len(moved.unavailable), len(kept.transfers) + len(kept.unavailable))

    def test_slowdown_is_the_busiest_node_over_the_mean(self):
        self.assertEqual(placement.slowdown([[0], [1]], [3, 1]), 1.5)
        self.assertEqual(placement.slowdown([[0], [1]], [0, 0]), 1)

    def test_a_move_must_pay(self):
        state = placement.RebalanceState()
        gain = {"slowdown_now": 1.5, "slowdown_after": 1.1, "balanced_s": 1.0}
        first = placement.decide_rebalance(1000, state, migration_s=10, **gain)
        self.assertEqual((first.move, first.state.count), (False, 1))
        second = placement.decide_rebalance(1010, first.state, migration_s=10, **gain)
        self.assertTrue(second.move, second.reason)
        self.assertEqual(second.state, placement.RebalanceState(moved=1010))
        self.assertFalse(placement.decide_rebalance(1010, first.state, migration_s=1e6, **gain).move)

    def test_bad_input(self):
        for call, message in [
            (lambda: placement.migration([[0]], [[0], [0]]), "wanted: 2 nodes, but held has 1"),
            (lambda: placement.migration([[-1]], [[0]]), "held: -1 is no expert"),
            (lambda: placement.slowdown([[0]], [1, 2]), "expert 1 has load and is on no node"),
            (lambda: placement.slowdown([[5]], [1]), "experts_of_nodes: 5 is no expert"),
            (lambda: placement.decide_rebalance(1, placement.RebalanceState(), slowdown_now=0.5, slowdown_after=1, balanced_s=1, migration_s=1), "at least 1"),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                call()


if __name__ == "__main__":
    unittest.main()
