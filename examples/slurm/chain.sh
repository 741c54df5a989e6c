#!/bin/bash
# The same job in pieces, where a queue allows only short ones: submit it as often as it may take. One piece runs at a time,
# each goes on where the one before it ended, and those that find nothing to do end at once.
#
#   for piece in 1 2 3 4; do CONFIG=mine.toml OUT=/shared/mine sbatch --nodes=5 chain.sh; done
#
#SBATCH --job-name=evermoe-chain
#SBATCH --dependency=singleton
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.log
#SBATCH --no-kill
#SBATCH --signal=B:USR1@120

set -u
CONFIG=${CONFIG:?the configuration of the job}
OUT=${OUT:?the output folder, seen by all machines}
SPARES=${SPARES:-0}
EVERMOE=${EVERMOE:-evermoe}

# The time of this piece is over soon: all finish the step, save and end.
drain() { "$EVERMOE" drain "$OUT" --no-wait; }
trap drain USR1 TERM

srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --no-kill --kill-on-bad-exit=0 \
  "$EVERMOE" node "$CONFIG" --out "$OUT" --spares "$SPARES" &
tasks=$!
while kill -0 $tasks 2> /dev/null; do
  wait $tasks
  code=$?
done
exit "$code"
