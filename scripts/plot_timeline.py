"""Draws what one failure did to a run: when each step was committed, and what the stages did meanwhile.

  build/evermoe run configs/tiny.toml --out out/killed --json > summary.json     # and kill -9 a worker
  .venv/bin/python scripts/plot_failure.py summary.json --save docs/images/failure.png

Everything is read from the summary and from the run's metrics.jsonl.
"""
import argparse
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SECONDS_SHOWN_MIN = 0.5  # before the failure and after the job went on; as long as the recovery if that is longer
LABEL_GAP = 0.025  # of the width, between two labelled commits
LOST = "#b04a3a"
PHASES = {  # color, words of the legend
    "train": ("#8fb4d9", "trains"),
    "wait": ("#e3e3e3", "waits, with its processes and its half-done step"),
    "view": ("#e8a33d", "new process, new view"),
    "restore": ("#b58bbf", "restores a window of snapshots from its peers' memory"),
    "catch up": ("#6a9a5b", "runs {steps} steps again, then compares bits with the survivor"),
}


def read_summary(path):
    return json.loads(path.read_text().strip().splitlines()[-1])


def commits(summary, failure):
    """(second, step) of every commit, on the clock of the failure's moments."""
    lines = [json.loads(line) for line in open(summary["metrics"])]
    steps = [line for line in lines if "loss" in line]
    # The longest of the steps about the failure is the one that the recovery held up: its commit is when the
    # job went on.
    about = [i for i, s in enumerate(steps) if failure["step"] <= s["step"] <= failure["step"] + 3]
    anchor = max(about, key=lambda i: steps[i]["seconds"])
    moments = {m["what"]: m["seconds"] for m in failure["moments"]}
    if steps[anchor]["seconds"] < moments["resumed"] - moments["failed"]:
        raise SystemExit("the failure fell into an evaluation or a save, of which no step tells the time: draw another")
    times = [0.0] * len(steps)
    times[anchor] = moments["resumed"]
    for i in range(anchor, 0, -1):
        times[i - 1] = times[i] - steps[i]["seconds"]
    for i in range(anchor + 1, len(steps)):
        times[i] = times[i - 1] + steps[i]["seconds"]
    return [(t, s["step"]) for t, s in zip(times, steps)], moments


def draw(summary, failure, axes):
    times, moments = commits(summary, failure)
    at = {what: seconds - moments["failed"] for what, seconds in moments.items()}
    shown = max(SECONDS_SHOWN_MIN, at["resumed"])
    first, last = -shown, at["resumed"] + shown
    stages = sorted({0, 1} | set(failure["rolled_back_stages"]), reverse=True)

    def bar(row, start, end, phase):
        axes.barh(row, end - start, left=start, height=0.6, color=PHASES[phase][0], edgecolor="white", linewidth=0.5)

    for row, stage in enumerate(stages):
        bar(row, first, 0, "train")
        bar(row, at["resumed"], last, "train")
        if stage not in failure["rolled_back_stages"]:
            bar(row, 0, at["resumed"], "wait")
            continue
        bar(row, 0, at["planned"], "view")
        bar(row, at["planned"], at["restored"], "restore")
        bar(row, at["restored"], at["caught up"], "catch up")
        bar(row, at["caught up"], at["resumed"], "train")
    labelled = first - (last - first)
    for second, step in times:
        x = second - moments["failed"]
        if not first <= x <= last:
            continue
        axes.plot([x, x], [len(stages) - 0.25, len(stages) - 0.05], color="#1f4e79", linewidth=1)
        if x - labelled >= LABEL_GAP * (last - first):
            axes.text(x, len(stages) + 0.02, str(step), ha="center", fontsize=6.5, color="#1f4e79")
            labelled = x
    axes.set_yticks(range(len(stages) + 1), [f"stage {stage}" for stage in stages] + ["steps committed"])
    axes.axvline(0, color=LOST, linewidth=1.5)
    axes.text(0.01 * (last - first), -0.62, f"kill -9 of worker {', '.join(failure['roles'])}", color=LOST, fontsize=8.5)
    axes.set_xlim(first, last)
    axes.set_ylim(-0.75, len(stages) + 0.3)
    axes.set_xlabel("seconds since the failure")
    axes.spines[["top", "right"]].set_visible(False)
    legend = [plt.Rectangle((0, 0), 1, 1, color=color) for color, _ in PHASES.values()]
    words = [text.format(steps=failure["recomputed_steps"]) for _, text in PHASES.values()]
    axes.legend(legend, words, loc="upper center", bbox_to_anchor=(0.5, -0.28), ncol=2, fontsize=8, frameon=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("summary", type=pathlib.Path, help="what `evermoe run --json` printed")
    parser.add_argument("--save", type=pathlib.Path, default=pathlib.Path("failure.png"))
    args = parser.parse_args()
    summary = read_summary(args.summary)
    local = [f for f in summary["failures"] if not f["restarted_all"] and f["timeline"]]
    if not local:
        raise SystemExit(f"{args.summary}: no failure from which the job went on locally")
    figure, axes = plt.subplots(figsize=(9, 3.1))
    draw(summary, local[0], axes)

    args.save.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.save, dpi=130, bbox_inches="tight")
    print(f"drawn: {args.save}")


if __name__ == "__main__":
    main()
