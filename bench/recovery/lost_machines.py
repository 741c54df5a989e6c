"""How much of its speed a job keeps whose machines are lost, one after the other, for good.

  .venv/bin/python bench/recovery/lost_machines.py

Six nodes of a third of a core each (control groups: as root, or with groups of one's own), so that a machine less is
a loss as on a cluster. Prints one JSON object: for each number of machines left the tokens/s, and `kept`, that is
tokens/s over those with all machines, over the share of the machines that are left. Micro-batches are many and divide
evenly, so that lanes have the same to do.
"""
import argparse
import json
import os
import statistics

from elastic import HERE, run
from rounds import spread, tell

NODES = 6
CONFIG = HERE.parent.parent / "configs" / "tiny.toml"
SETTINGS = ["train.micro_batches=60", "train.micro_batch_size=2", "parallel.stages=1", f"parallel.lanes={NODES}",
            f"run.nodes={NODES}", "run.node_cpus=0.3", "checkpoint.every_steps=0", "evaluate.every_steps=0",
            "evaluate.micro_batches=1", "protection.strategy=gradients", "protection.copies=2", "elastic.enabled=true"]


def kept(evermoe, lost, steps):
    """By the number of machines left: tokens/s, and what is kept, in one run of so many steps with each."""
    faults = "".join(f'[[fault]]\nkind = "lose_node"\nnode = {i + 1}\nstep = {(i + 1) * steps}\n' for i in range(lost))
    by_step, summary = run(evermoe, CONFIG, [*SETTINGS, f"train.steps={(lost + 1) * steps}"], faults)
    if [change["nodes"] for change in summary["membership_history"]] != list(range(NODES, NODES - lost - 1, -1)):
        raise SystemExit(f"not one machine after the other was lost: {summary['membership_history']}")
    begins = [change["step"] for change in summary["membership_history"]] + [(lost + 1) * steps]
    speeds = {}
    for left, begin, end in zip(range(NODES, 0, -1), begins, begins[1:]):
        # The first steps with so many pay for the change, and the machine that goes next is lost after the last one.
        speeds[left] = statistics.median(by_step[s]["tokens_per_second"] for s in range(begin + 3, end - 1) if s in by_step)
    return {left: (speed, speed / speeds[NODES] / (left / NODES)) for left, speed in speeds.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evermoe", default="build/evermoe")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lost", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="with each number of machines")
    args = parser.parse_args()
    rounds = []
    for number in range(args.rounds):
        rounds.append(kept(os.path.abspath(args.evermoe), args.lost, args.steps))
        tell(f"round {number + 1} of {args.rounds}: kept "
             + ", ".join(f"{share:.2f} with {left}" for left, (_, share) in rounds[-1].items()))
    results = [{"machines": left, "tokens_per_second": spread([r[left][0] for r in rounds]),
                "kept": spread([r[left][1] for r in rounds])} for left in rounds[0]]
    print(json.dumps({"benchmark": "lost machines", "of": NODES, "results": results}))


if __name__ == "__main__":
    main()
