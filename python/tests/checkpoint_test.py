import itertools
import unittest

import numpy as np

from evermoe import checkpoint


def step_bytes(full, compute, begin, end):
    return sum(full[begin:end]) + sum(compute[end:])


def shortest_by_brute_force(full, compute, budget):
    """The least number of steps over all partitions; None if none fits."""
    operators = len(full)
    for steps in range(1, operators + 1):
        for cuts in itertools.combinations(range(1, operators), steps - 1):
            bounds = [0, *cuts, operators]
            if all(step_bytes(full, compute, b, e) <= budget for b, e in zip(bounds, bounds[1:])):
                return steps
    return None


class MinimalWindow(unittest.TestCase):
    def test_is_the_shortest_of_all_partitions(self):
        random = np.random.default_rng(3)
        feasible = 0
        for _ in range(300):
            full = random.integers(1, 20, random.integers(1, 8))
            compute = random.integers(0, full + 1)
            budget = int(random.integers(5, 60))
            expected = shortest_by_brute_force(full.tolist(), compute.tolist(), budget)
            if expected is None:
                with self.assertRaises(ValueError):
                    checkpoint.minimal_window(full, compute, budget)
                continue
            feasible += 1
            window = checkpoint.minimal_window(full, compute, budget)
            self.assertEqual(len(window), expected)
            self.assertEqual([window[0][0], window[-1][1]], [0, len(full)])
            for (_, end), (begin, _) in zip(window, window[1:]):
                self.assertEqual(end, begin)
            for begin, end in window:
                self.assertLessEqual(step_bytes(full, compute, begin, end), budget)
        self.assertGreater(feasible, 100)

    def test_the_missing_bytes_are_what_is_missing(self):
        full, compute = [10, 20, 10], [2, 4, 2]
        # The second operator in full and the third compute-only: 22 bytes.
        with self.assertRaisesRegex(ValueError, "^budget_bytes: 3 bytes are missing for operator 1$"):
            checkpoint.minimal_window(full, compute, 19)
        self.assertEqual(len(checkpoint.minimal_window(full, compute, 22)), 3)

    def test_bad_input(self):
        for arguments, message in [
            (([1, 2], [1], 5), "full_bytes has 2 operators, compute_bytes 1"),
            (([1], [2], 5), "operator 0: 2 compute-only bytes of 1 full bytes"),
            (([1], [-1], 5), "operator 0: -1 compute-only bytes"),
            (([2**62, 2**62], [0, 0], 5), "more than 2\\^62 bytes"),
            (([1], [1], -5), "budget_bytes: must not be negative"),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                checkpoint.minimal_window(*arguments)


class SelectExperts(unittest.TestCase):
    owners = np.arange(64) // 8

    def test_sequential_goes_round_ranks_and_experts(self):
        saved = set()
        for commit in range(8):
            (layer,) = checkpoint.select_experts(8, self.owners, cursor=8 * commit)
            self.assertEqual(sorted(self.owners[layer]), list(range(8)))
            saved.update(layer)
        self.assertEqual(saved, set(range(64)))

    def test_load_aware_fills_every_layer_within_the_capacity(self):
        # Here the paper's rule saves only one expert of layer 0.
        selection = checkpoint.select_experts(2, [0, 1, 2], method="load_aware", unsaved=[[9, 8, 1]] * 3)
        self.assertEqual([len(set(layer)) for layer in selection], [2, 2, 2])
        self.assertEqual(np.bincount(sum(selection, [])).tolist(), [2, 2, 2])

    def test_load_aware_takes_the_most_unsaved_first(self):
        selection = checkpoint.select_experts(1, [0, 1], method="load_aware", unsaved=[[1, 10], [20, 1]])
        self.assertEqual(selection, [[1], [0]])

    def test_bad_input(self):
        for call, message in [
            (lambda: checkpoint.select_experts(0, [0, 1]), "k: 0 is not between 1 and 2 experts"),
            (lambda: checkpoint.select_experts(3, [0, 1]), "k: 3 is not between 1 and 2 experts"),
            (lambda: checkpoint.select_experts(1, []), "owners: no expert"),
            (lambda: checkpoint.select_experts(1, [0, -1]), "owners: -1 is no rank"),
            (lambda: checkpoint.select_experts(1, [0], cursor=-1), "cursor: -1"),
            (lambda: checkpoint.select_experts(1, [0], layers=-1), "layers: -1"),
            (lambda: checkpoint.select_experts(1, [0], method="random"), 'method: "random"'),
            (lambda: checkpoint.select_experts(1, [0], unsaved=[[1]]), "unsaved: only for"),
            (lambda: checkpoint.select_experts(1, [0], method="load_aware"), "unsaved: method"),
            (
                lambda: checkpoint.select_experts(1, [0, 1], method="load_aware", unsaved=[[1]]),
                "unsaved: a layer has 1 experts instead of 2",
            ),
            (
                lambda: checkpoint.select_experts(1, [0], method="load_aware", unsaved=[[-1]]),
                "unsaved: must not be negative",
            ),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                call()


if __name__ == "__main__":
    unittest.main()
