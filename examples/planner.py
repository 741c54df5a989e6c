# %% [markdown]
# # Planning a fault-tolerant MoE training job
#
# 8 experts on 10 nodes with 6 slots each. Which experts get how many replicas, what do they survive, where do the
# tokens go, how often should the job save, and what does a save hold? Everything runs in a second, without a GPU:
#
#     PYTHONPATH=build/python .venv/bin/python examples/planner.py

# %%
import numpy as np

from evermoe import checkpoint, forecast, placement

NODES, SLOTS, EXPERTS = 10, 6, 8
random = np.random.default_rng(7)

# %% [markdown]
# ## Replicas
# More loaded experts get more replicas, every expert gets at least two.

# %%
loads = np.sort(random.integers(800, 1200, EXPERTS))
replicas = placement.allocate(loads, NODES, SLOTS, faults=2)
print("expert    load  replicas  tokens of a replica")
for expert, (load, count) in enumerate(zip(loads, replicas)):
    print(f"{expert:6d} {load:7d} {count:9d} {load / count:20.1f}")

# %% [markdown]
# ## Survival
# The probability that no expert is lost, by the number of failed nodes.

# %%
print("\nfailed nodes  " + "".join(f"{failed:7d}" for failed in range(1, NODES)))
for method in ("mro_q", "mro", "spread", "compact"):
    curve = placement.survival_curve(placement.place(replicas, NODES, SLOTS, method))
    print(f"{method:14s}" + "".join(f"{p:7.3f}" for p in curve[1:NODES]))

# %% [markdown]
# ## Dispatch
# Each node is a rank. How many tokens stay where they are?

# %%
plan = placement.place(replicas, NODES, SLOTS)
held = np.array([np.bincount(experts, minlength=EXPERTS) for experts in plan])
tokens = random.multinomial(4096, loads / loads.sum(), size=NODES)
counts = placement.dispatch(tokens, held)
local = np.trace(counts, axis1=1, axis2=2).sum()
print(f"\n{counts.sum()} tokens, {local / counts.sum():.0%} of them served on their own rank")
per_replica = counts.sum(axis=(1, 2)) / replicas
print(f"a replica serves {per_replica.min():.0f} to {per_replica.max():.0f} tokens")

# %% [markdown]
# ## How often to save
# A save stops training for two minutes, a failure comes every 7593.75 s.

# %%
print("\nmethod       work between saves  share of time that trains")
for method in ("exact", "daly_higher", "daly", "young"):
    work = forecast.optimal_interval(120, 7593.75, method=method)
    print(f"{method:12s} {work:17.1f} s {forecast.efficiency(work, 120, 7593.75):26.3%}")
print(f"so save after {forecast.optimal_interval(120, 7593.75):.0f} s of work")

# %% [markdown]
# ## What a save holds
# Spread over the steps of a window, each within the bytes that fit beside training. 12 bytes for each parameter in
# full (master weights and moments), 2 compute-only.

# %%
parameters = np.array([4_000_000] * EXPERTS + [1_000_000])
for budget in (450_000_000, 200_000_000, 120_000_000, 80_000_000):
    try:
        window = checkpoint.minimal_window(12 * parameters, 2 * parameters, budget)
        print(f"{budget / 1e6:4.0f} MB a step: {len(window)} steps {window}")
    except ValueError as error:
        print(f"{budget / 1e6:4.0f} MB a step: {error}")

# %% [markdown]
# ## Saving fewer experts (LOSSY)
# Two of eight experts in each of three layers; four ranks own two experts each.

# %%
owners = np.arange(EXPERTS) // 2
print("\nsequential ", checkpoint.select_experts(2, owners, layers=3))
unsaved = random.integers(0, 1000, (3, EXPERTS))
print("load-aware ", checkpoint.select_experts(2, owners, method="load_aware", unsaved=unsaved))
