# %% [markdown]
# # What will a run cost, before it runs?
#
# A Mixtral on nodes of 8 A100 that fail as often as Meta's (6.5 failures per 1000 node-days). How much of the time is
# training, how should the job be protected, and what changes on more and more GPUs? Everything is simulated; a GPU is
# not needed:
#
#     PYTHONPATH=build/python .venv/bin/python examples/what_if.py

# %%
from evermoe import forecast

MODEL = "mixtral-8x7b"
CLUSTER = {"cluster": {"nodes": 64, "spares": 1}, "links": {"storage_gb_per_second": 20}}

# %% [markdown]
# ## As configured
# Durable saves every so many steps, nothing else.

# %%
print("save every  share of time that trains  stalls  done again  down")
for steps in (20, 100, 500, 2500):
    expected = forecast.run(MODEL, CLUSTER, settings={"protection.strategy": "none", "checkpoint.every_steps": steps}, runs=8)["estimates"]
    print(
        f"{steps:10d} {expected['ettr']['mean']:19.2%} +- {expected['ettr']['standard_error']:.2%}"
        f" {expected['protection_share']['mean']:7.2%} {expected['rework_share']['mean']:11.2%} {expected['downtime_share']['mean']:5.2%}"
    )

# %% [markdown]
# ## The best protection
# The score counts spare nodes too: what they could have trained is lost.

# %%
plan = forecast.plan(MODEL, CLUSTER)
print(f"\nbest: {plan['best']['strategy']['name']}, ETTR {plan['best']['estimates']['ettr']['mean']:.2%}")
for reason in plan["reasons"]:
    print(" *", reason)
for other in plan["others"][:4]:
    print(f"   {other['strategy']['name']:32s} {other['estimates']['ettr']['mean']:.2%}")

# %% [markdown]
# ## Up to 131,072 GPUs

# %%
print("\n  GPUs  one failure in     ETTR  spares  strategy")
for row in forecast.what_if(MODEL, CLUSTER, [512, 4096, 16384, 131072], runs=4):
    print(f"{row['gpus']:6d} {row['job_mtbf_seconds'] / 3600:13.2f} h {row['ettr']['mean']:8.2%} {row['spares']:7d}  {row['strategy']}")
