"""Draws the loss curve of a run, with the unigram entropy of its text for comparison.

  .venv/bin/python scripts/plot_loss.py out/quickstart [--save docs/images/quickstart.png]
"""
import argparse
import collections
import csv
import math
import pathlib
import tomllib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def curves(path):
    training, validation = [], []
    for row in csv.DictReader(open(path)):
        if row["loss"]:
            training.append((int(row["step"]), float(row["loss"])))
        if row["validation_loss"]:
            validation.append((int(row["step"]), float(row["validation_loss"])))
    return training, validation


def unigram_entropy(out):
    """Nats per byte of the held-out text under byte frequencies of the training text; None unless bytes."""
    data = tomllib.loads((out / "config.toml").read_text())["data"]
    if data["tokenizer"] != "bytes" or data.get("validation_path") or data["path"].endswith(".tokens"):
        return None
    text = pathlib.Path(data["path"]).read_bytes()
    cut = len(text) - int(len(text) * data["validation_fraction"])
    frequency = collections.Counter(text[:cut])
    held_out = collections.Counter(text[cut:])
    return -sum(n * math.log(max(frequency[b], 1) / cut) for b, n in held_out.items()) / (len(text) - cut)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--save", type=pathlib.Path)
    args = parser.parse_args()
    training, validation = curves(args.out / "loss.csv")
    figure, axes = plt.subplots(figsize=(7, 3.6))
    axes.plot(*zip(*training), color="#8fb4d9", linewidth=1, label="training")
    axes.plot(*zip(*validation), color="#1f4e79", marker="o", markersize=3, label="held-out text")
    if (entropy := unigram_entropy(args.out)) is not None:
        axes.axhline(entropy, color="#b04a3a", linestyle="--", linewidth=1, label=f"unigram entropy {entropy:.2f}")
        print(f"unigram entropy {entropy:.3f}, last held-out loss {validation[-1][1]:.3f} nats")
    axes.set(xlabel="step", ylabel="loss, nats per token")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.tight_layout()
    save = args.save or args.out / "loss.png"
    save.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(save, dpi=130)
    print(f"drawn: {save}")


if __name__ == "__main__":
    main()
