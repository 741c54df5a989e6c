"""Draws what one failure, or one move, did to a run: when each step was committed, and who did what meanwhile.

  build/evermoe run configs/tiny.toml --out out/killed --json > summary.json     # and kill -9 a worker
  .venv/bin/python scripts/plot_timeline.py failure summary.json --save docs/images/failure.png

  build/evermoe run configs/tiny.toml --out out/moved --nodes 2 --spares 1 --json > summary.json   # and evermoe move
  .venv/bin/python scripts/plot_timeline.py move summary.json --save docs/images/move.png

Everything is read from the summary and from the run's metrics.jsonl.
"""
import argparse
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SECONDS_SHOWN_MIN = 0.5  # before a failure and after the job went on; as long as the recovery if that is longer
LABEL_GAP = 0.025  # of the width, between two labelled commits
LOST, COMMITTED = "#b04a3a", "#1f4e79"
PHASES = {  # color, words of the legend
    "train": ("#8fb4d9", "trains"),
    "wait": ("#e3e3e3", "waits, with its processes and its half-done step"),
    "view": ("#e8a33d", "new process, new view"),
    "restore": ("#b58bbf", "restores a window of snapshots from its peers' memory"),
    "catch up": ("#6a9a5b", "runs {steps} steps again, then compares bits with the survivor"),
}
MOVE_PHASES = {
    "train": ("#8fb4d9", "trains"),
    "prepare": ("#cfe0c8", "starts, builds the model, plays whole steps alone"),
    "copy": ("#6a9a5b", "gets what the role keeps in memory, then its state"),
    "hand over": ("#d9b44a", "rest of the hand-over"),
    "view": ("#e8a33d", "new view"),
    "restore": ("#b58bbf", "rest of the state; weights of the stage put together"),
    "wait": ("#e3e3e3", "waits"),
}


def read_summary(path):
    return json.loads(path.read_text().strip().splitlines()[-1])


def steps_of(summary):
    steps = [line for line in map(json.loads, open(summary["metrics"])) if "loss" in line]
    if any("time" not in step for step in steps):
        raise SystemExit(f"{summary['metrics']}: its steps have no time; it was written by an older version")
    return steps


def commits(steps, anchor, second):
    """(second, step) of every commit, where that of steps[anchor] was at `second`."""
    return [(second + s["time"] - steps[anchor]["time"], s["step"]) for s in steps]


def resumed(steps, step):
    """The place of the step with which the job went on. The controller may not have heard of the last ones before a failure,
    so it is the longest at or after `step`."""
    about = [i for i in range(1, len(steps)) if step <= steps[i]["step"] <= step + 3]
    return max(about, key=lambda i: steps[i]["time"] - steps[i - 1]["time"])


def switched(steps, step):
    """The place of the first step after the one whose state moved."""
    return next(i for i, s in enumerate(steps) if s["step"] > step)


def bar(axes, row, start, end, phase):
    axes.barh(row, end - start, left=start, height=0.6, color=phase[0], edgecolor="white", linewidth=0.5)


def draw_commits(axes, row, times, first, last, labels=True):
    labelled = first - (last - first)
    for x, step in times:
        if not first <= x <= last:
            continue
        axes.plot([x, x], [row - 0.25, row - 0.05], color=COMMITTED, linewidth=1 if labels else 0.4)
        if labels and x - labelled >= LABEL_GAP * (last - first):
            axes.text(x, row + 0.02, str(step), ha="center", fontsize=6.5, color=COMMITTED)
            labelled = x


def finish(axes, first, last, rows, xlabel):
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xlim(first, last)
    axes.set_ylim(-0.75, len(rows) - 0.7)
    axes.set_xlabel(xlabel)
    axes.spines[["top", "right"]].set_visible(False)


def add_legend(where, phases, place, **words):
    legend = [plt.Rectangle((0, 0), 1, 1, color=color) for color, _ in phases.values()]
    where.legend(legend, [text.format(**words) for _, text in phases.values()], loc="upper center", bbox_to_anchor=place,
                 ncol=2, fontsize=8, frameon=False)


def draw_failure(summary, figure):
    local = [f for f in summary["failures"] if not f["restarted_all"] and f["timeline"]]
    if not local:
        raise SystemExit("no failure from which the job went on locally")
    failure, steps, axes = local[0], steps_of(summary), figure.subplots()
    moments = {m["what"]: m["seconds"] for m in failure["moments"]}
    at = {what: seconds - moments["failed"] for what, seconds in moments.items()}
    times = commits(steps, resumed(steps, failure["step"]), at["resumed"])
    shown = max(SECONDS_SHOWN_MIN, at["resumed"])
    first, last = -shown, at["resumed"] + shown
    stages = sorted({0, 1} | set(failure["rolled_back_stages"]), reverse=True)
    for row, stage in enumerate(stages):
        bar(axes, row, first, 0, PHASES["train"])
        bar(axes, row, at["resumed"], last, PHASES["train"])
        if stage not in failure["rolled_back_stages"]:
            bar(axes, row, 0, at["resumed"], PHASES["wait"])
            continue
        for start, end, phase in ((0, "planned", "view"), ("planned", "restored", "restore"),
                                  ("restored", "caught up", "catch up"), ("caught up", "resumed", "train")):
            bar(axes, row, at.get(start, 0), at[end], PHASES[phase])
    draw_commits(axes, len(stages), times, first, last)
    axes.axvline(0, color=LOST, linewidth=1.5)
    axes.text(0.01 * (last - first), -0.62, f"kill -9 of worker {', '.join(failure['roles'])}", color=LOST, fontsize=8.5)
    finish(axes, first, last, [*(f"stage {stage}" for stage in stages), "steps committed"], "seconds since the failure")
    add_legend(axes, PHASES, (0.5, -0.28), steps=failure["recomputed_steps"])


def draw_roles(axes, at, first, last):
    """The joiner, the leaver and, above them, all others."""
    joiner = ((0, "processes warm", "prepare"), ("processes warm", "last commit", "copy"),
              ("last commit", "handed over", "hand over"), ("handed over", "planned", "view"),
              ("planned", "restored", "restore"), ("restored", last, "train"))
    leaver = ((first, "last commit", "train"), ("last commit", "handed over", "hand over"))
    others = ((first, "last commit", "train"), ("last commit", "handed over", "wait"), ("handed over", "planned", "view"),
              ("planned", "restored", "wait"), ("restored", last, "train"))
    for row, parts in enumerate((joiner, leaver, others)):
        for start, end, phase in parts:
            start, end = max(at.get(start, start), first), min(at.get(end, end), last)
            if start < end:
                bar(axes, row, start, end, MOVE_PHASES[phase])


def draw_move(summary, figure):
    done = [move for move in summary["moves"] if move["state"] == "done"]
    if not done:
        raise SystemExit("no move was done")
    move, steps = done[0], steps_of(summary)
    seconds = {m["what"]: m["seconds"] for m in move["timeline"]}
    at = {what: second - seconds["asked"] for what, second in seconds.items()}
    stood = at["next commit"] - at["last commit"]
    times = commits(steps, switched(steps, move["step"]), at["next commit"])
    roles, old, new = ", ".join(move["roles"]), sorted(set(move["from"])), sorted(set(move["to"]))
    rows = [f"{roles} on node {', '.join(map(str, new))}", f"{roles} on node {', '.join(map(str, old))}", "all others",
            "steps committed"]
    whole, near = figure.subplots(2, 1)
    draw_roles(whole, at, -1, at["next commit"] + 1)
    draw_commits(whole, 3, times, -1, at["next commit"] + 1, labels=False)
    finish(whole, -1, at["next commit"] + 1, rows, "seconds since the move was asked for")
    first, last = at["last commit"] - 3 * stood, at["next commit"] + 3 * stood
    draw_roles(near, at, first, last)
    draw_commits(near, 3, times, first, last)
    finish(near, first, last, rows, f"the same about the switch; between two commits {stood:.3f} s, "
                                    f"usually {move['usual_step_seconds']:.3f} s")
    add_legend(figure, MOVE_PHASES, (0.5, 0.02))
    figure.subplots_adjust(hspace=0.5)


DRAWN = {"failure": (draw_failure, 3.1), "move": (draw_move, 4.6)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=DRAWN, help="the first one of the run")
    parser.add_argument("summary", type=pathlib.Path, help="what `evermoe run --json` printed")
    parser.add_argument("--save", type=pathlib.Path, default=pathlib.Path("timeline.png"))
    args = parser.parse_args()
    draw, height = DRAWN[args.what]
    figure = plt.figure(figsize=(9, height))
    try:
        draw(read_summary(args.summary), figure)
    except SystemExit as why:
        raise SystemExit(f"{args.summary}: {why}") from None
    args.save.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.save, dpi=130, bbox_inches="tight")
    print(f"drawn: {args.save}")


if __name__ == "__main__":
    main()
