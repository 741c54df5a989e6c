#!/bin/bash
# A job that survives: machines that are lost are replaced by spares while it runs, and so are those that somebody drains
# (scontrol update NodeName=... State=DRAIN); when its time is over, or a failure was too large, Slurm queues it again and
# it goes on.
#
#   CONFIG=mine.toml OUT=/shared/mine sbatch --nodes=5 requeue.sh
#
#SBATCH --job-name=evermoe
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --no-kill
#SBATCH --signal=B:USR1@120

set -u
CONFIG=${CONFIG:?the configuration of the job}
OUT=${OUT:?the output folder, seen by all machines}
SPARES=${SPARES:-0}
RESTARTS_MAX=${RESTARTS_MAX:-20}
DRAIN_POLL_SECONDS=${DRAIN_POLL_SECONDS:-15}
EVERMOE=${EVERMOE:-evermoe}

# Slurm ends the job soon: all finish the step, save and end.
drain() { "$EVERMOE" drain "$OUT" --no-wait; }
trap drain USR1 TERM

# A lost machine ends neither the allocation nor the other tasks. Only node 0 knows how the job ended: srun's exit code is that
# of the worst machine.
mkdir -p "$OUT"
RESULT=$OUT/slurm-$SLURM_JOB_ID.code
rm -f "$RESULT"
export CONFIG OUT SPARES EVERMOE RESULT
srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --no-kill --kill-on-bad-exit=0 bash -c '
  trap "" USR1 TERM
  "$EVERMOE" node "$CONFIG" --out "$OUT" --spares "$SPARES" --drained-exit-code 3
  code=$?
  test "$SLURM_NODEID" != 0 || echo $code > "$RESULT"
  exit $code' &
tasks=$!

# A machine that is drained gets no new jobs, but Slurm tells those that it has nothing: their roles move away. A wish that
# is refused, because no other machine has room, is made again.
move_from_drained() {
  local asked=" " number name
  while sleep "$DRAIN_POLL_SECONDS"; do
    number=-1
    for name in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
      number=$((number + 1))
      [[ $asked != *" $name "* && $(sinfo --noheader --nodes="$name" --format=%T) == drain* ]] || continue
      "$EVERMOE" move "$OUT" --drain "$number" && asked+="$name "
    done
  done
}
move_from_drained &
watch=$!
while kill -0 $tasks 2> /dev/null; do wait $tasks; done
kill $watch

code=$(cat "$RESULT" 2> /dev/null || echo 1)
rm -f "$RESULT"
case $code in
  0) echo "done" ;;
  1 | 3 | 1[0-9][0-9])
    if test "${SLURM_RESTART_COUNT:-0}" -lt "$RESTARTS_MAX"; then
      echo "exit code $code: queued again"
      scontrol requeue "$SLURM_JOB_ID"
    else
      echo "exit code $code after $RESTARTS_MAX restarts: given up"
    fi
    ;;
  *) echo "exit code $code: starting it again would not help" ;;
esac
exit "$code"
