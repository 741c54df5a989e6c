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



class Lost(unittest.TestCase):
    """Against counting every token of every step by itself."""

    def test_counters_are_the_tokens_of_all_steps(self):
        random = np.random.default_rng(5)
        for _ in range(50):
            layers, experts = (int(n) for n in random.integers(1, 4, 2))
            counters = checkpoint.LostTokens(layers, experts)
            steps, saved_at, committed, version = [], np.zeros((layers, experts), dtype=int), 0, 0
            start = 0
            for _ in range(30):
                tokens = random.integers(0, 9, (layers, experts))
                steps.append(tokens)
                counters.add_step(tokens)
                if random.random() < 0.4:
                    version += 1
                    counters.snapshot(version)
                    if random.random() < 0.2:
                        counters.discard(version)
                        continue
                    saved = [sorted(random.choice(experts, random.integers(1, experts + 1), replace=False).tolist()) for _ in range(layers)]
                    expected = sum(int(steps[s][layer][e]) for layer in range(layers) for e in range(experts) if e not in saved[layer]
                                   for s in range(max(saved_at[layer][e], start), len(steps)))
                    self.assertEqual(counters.exposed_after(version, saved), expected)
                    counters.commit(version, saved)
                    self.assertEqual(counters.exposed(), expected)
                    committed = len(steps)
                    for layer in range(layers):
                        saved_at[layer][saved[layer]] = committed
                elif random.random() < 0.1:
                    self.assertEqual(counters.fault(), counters_lost(steps, saved_at, start, committed))
                    steps = steps[:committed]
                    start = committed

    def test_bad_input(self):
        counters = checkpoint.LostTokens(1, 2)
        counters.snapshot(3)
        for call, message in [
            (lambda: checkpoint.LostTokens(0, 1), "layers: 0 is not between"),
            (lambda: counters.add_step([[1, 2, 3]]), "a layer has 3 experts instead of 2"),
            (lambda: counters.add_step([[1, -2]]), "-2 is not between"),
            (lambda: counters.snapshot(3), "version: 3 is not above 3"),
            (lambda: counters.commit(4, [[0]]), "version: 4 has no snapshot under way"),
            (lambda: counters.commit(3, [[2]]), "saved: expert 2 is not one of 2"),
            (lambda: counters.commit(3, []), "saved: 0 layers instead of 1"),
            (lambda: checkpoint.lost_token_share(1, 0), "expected lost >= 0 and total >= 1"),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                call()


def counters_lost(steps, saved_at, start, committed):
    layers, experts = saved_at.shape
    return sum(int(steps[s][layer][e]) for layer in range(layers) for e in range(experts) for s in range(max(saved_at[layer][e], start), committed))


class HowManyExperts(unittest.TestCase):
    def test_the_guard_keeps_the_loss_below_the_maximum(self):
        state, lost = checkpoint.DynamicK(k=1), 0
        for exposed in (100, 250, 90, 400, 10):
            state, reason = checkpoint.guarded_k(state, lambda k: exposed * (8 - k) // 7, experts=8, lost_tokens_max=500)
            self.assertIn("K", reason)
            now = exposed * (8 - state.k) // 7
            lost += now
            state, _ = checkpoint.k_after_fault(state, now, experts=8, lost_tokens_max=500)
            self.assertEqual(state.lost, lost)
            self.assertLessEqual(lost, 500)

    def test_bad_input(self):
        state = checkpoint.DynamicK(k=1)
        for call, message in [
            (lambda: checkpoint.k_after_fault(checkpoint.DynamicK(k=9), 1, experts=8, lost_tokens_max=1), "k: 9 is not between 1 and 8"),
            (lambda: checkpoint.k_after_fault(state, -1, experts=8, lost_tokens_max=1), "lost_now: -1"),
            (lambda: checkpoint.guarded_k(state, lambda k: 7, experts=8, lost_tokens_max=1), "must be 0 where all experts are saved"),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                call()


if __name__ == "__main__":
    unittest.main()
