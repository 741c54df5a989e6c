#!/usr/bin/env bash
# Machines to break, on one computer: namespaces with a switch between them. Each has its own host name, processes, network,
# /run and /dev/shm; all other files they share. Needs iproute2 and util-linux, and root only where the kernel keeps user
# namespaces for root. All of it lives in one process namespace and ends with it: nothing can be left behind.
set -euo pipefail
SELF=$(realpath "$0")
export LAB=${LAB:-/tmp/evermoe-lab-$(id -u)} # what commands from other terminals find; another name for a second lab

usage() {
  cat << 'USAGE'
lab.sh up [-n MACHINES] [-s SPARES] CONFIG OUT [FLAG...]
                 trains CONFIG into OUT on 4 machines, of which 1 is a spare, and ends with the job; FLAGs are those of
                 `evermoe node`. Ctrl-C drains the job, a second one ends everything at once

In another terminal, meanwhile; machines have the numbers of their nodes, from 0:
lab.sh status    what `evermoe status` says; --watch: every second
lab.sh kill N    switches a machine off: nobody is told
lab.sh start N   switches it on again
lab.sh leave N   tells a machine that it will be taken away (SIGUSR1 to its node)
lab.sh cut N     pulls its network cable
lab.sh heal N    puts the cable back, and ends slow and delay
lab.sh slow N RATE              its cable carries no more than that, such as 2mbit
lab.sh delay N MS [LOSS]        packets take so many milliseconds longer, and LOSS percent of them never come
lab.sh enter N [COMMAND...]     a command, or a shell, on the machine
lab.sh down      ends everything at once

EVERMOE=PROGRAM is what machines run (evermoe).
Exit codes: up: that of the job, the worst of all nodes that ended by themselves; 1 failed; 2 bad input.
USAGE
}

fail() { echo "lab.sh: $*" >&2; exit 1; }
refuse() { echo "lab.sh: $*" >&2; exit 2; }

# ---- outside

is_up() { [ -e "$LAB/pid" ] && ! flock --nonblock "$LAB/lock" true; }

# With root's rights over namespaces of one's own, or as root.
as_root() { [ "$(id -u)" = 0 ] || echo "--user $*"; }

take_arguments() {
  MACHINES=4 SPARES=1
  while getopts :n:s: option; do
    case $option in
      n) MACHINES=$OPTARG ;;
      s) SPARES=$OPTARG ;;
      :) refuse "-$OPTARG: a number is missing" ;;
      *) refuse "up: -$OPTARG is none of -n and -s; flags of evermoe node come after OUT" ;;
    esac
  done
  shift $((OPTIND - 1))
  [[ $MACHINES =~ ^[0-9]{1,3}$ ]] && ((MACHINES >= 2 && MACHINES <= 200)) || refuse "-n: from 2 to 200 machines, not '$MACHINES'"
  [[ $SPARES =~ ^[0-9]{1,3}$ ]] && ((SPARES < MACHINES)) || refuse "-s: from 0 to $((MACHINES - 1)) spares, not '$SPARES'"
  [ $# -ge 2 ] || refuse "up: CONFIG and OUT are missing (lab.sh help)"
  [ -f "$1" ] || refuse "$1: no such file"
  CONFIG=$(realpath "$1") OUT=$(realpath --canonicalize-missing "$2")
  shift 2
  FLAGS=("$@")
  EVERMOE=$(command -v "${EVERMOE:-evermoe}") || refuse "${EVERMOE:-evermoe}: no such program; EVERMOE=PATH names it"
  EVERMOE=$(realpath --no-symlinks "$EVERMOE")
  for path in "$CONFIG" "$OUT" "$EVERMOE" "$SELF" "$LAB"; do
    [[ $path != /run/* && $path != /dev/shm/* ]] || refuse "$path: machines do not share /run and /dev/shm"
  done
}

up() {
  take_arguments "$@"
  for program in ip unshare nsenter setsid flock hostname; do
    command -v $program > /dev/null || fail "$program is missing (iproute2, util-linux, hostname)"
  done
  # shellcheck disable=SC2046 # words
  unshare $(as_root --map-root-user) --net true 2> /dev/null || fail "this kernel lets only root make namespaces"
  mkdir -p -m 700 "$LAB" && [ -O "$LAB" ] || fail "$LAB is somebody else's"
  exec 9>> "$LAB/lock"
  flock --nonblock 9 || fail "a lab is up already; LAB=FOLDER names another one"
  rm -f "$LAB"/m* "$LAB/pid"
  declare -p EVERMOE CONFIG OUT MACHINES SPARES FLAGS > "$LAB/settings"
  # shellcheck disable=SC2046
  LAB_INSIDE=1 exec unshare $(as_root --map-root-user) --mount --net --pid --fork --kill-child "$SELF" first_process
}

enter_lab() {
  is_up || fail "no lab is up"
  # shellcheck disable=SC2046
  LAB_INSIDE=1 exec nsenter --target "$(< "$LAB/pid")" $(as_root --preserve-credentials) --mount --net --pid "$SELF" "$@"
}

down() {
  is_up || fail "no lab is up"
  kill -TERM "$(< "$LAB/pid")"
  for _ in {1..100}; do
    is_up || return 0
    sleep 0.1
  done
  fail "the lab does not end"
}

# ---- inside: the lab's first process, its switch and its machines

first_process() {
  local pid _
  read -r pid _ < /proc/self/stat # as those outside count
  trap 'rm -rf "$LAB"' EXIT
  trap drain INT
  trap 'exit 143' TERM
  mount -t proc proc /proc
  mount -t tmpfs tmpfs /run # where `ip netns` keeps names
  ip link set lo up
  ip link add switch type bridge
  ip addr add 10.77.0.1/24 dev switch
  ip link set switch up
  for ((n = 0; n < MACHINES; n++)); do switch_on $n; done
  echo "$pid" > "$LAB/pid"
  while any_is_on; do
    for ((n = 0; n < MACHINES; n++)); do [ ! -e "$LAB/m$n.start" ] || switch_on $n; done
    sleep 0.5 || true
  done
  local codes
  codes=$(sort -n "$LAB"/m*.code 2> /dev/null | tail -n 1)
  exit "${codes:-1}"
}

drain() {
  trap 'exit 130' INT
  "$EVERMOE" drain "$OUT" --no-wait || exit 130
}

any_is_on() {
  for ((n = 0; n < MACHINES; n++)); do
    if is_on $n; then return 0; fi
  done
  return 1
}

is_on() { [ -s "$LAB/m$1.pid" ] && kill -0 "$(< "$LAB/m$1.pid")" 2> /dev/null; }

# The port mN of the switch and the machine's eth0 are the ends of its cable.
switch_on() {
  remove "$1"
  ip netns add "m$1"
  ip link add "m$1" type veth peer name eth0 netns "m$1"
  ip link set "m$1" master switch up
  ip -n "m$1" addr add "10.77.0.$((10 + $1))/24" dev eth0
  ip -n "m$1" link set lo up
  ip -n "m$1" link set eth0 up
  # In a session of its own it hears no Ctrl-C.
  setsid ip netns exec "m$1" unshare --mount --pid --uts --ipc --fork --kill-child "$SELF" machine "$1" < /dev/null 9>&- &
  disown
  wait_for "$1"
}

wait_for() {
  for _ in {1..100}; do
    if is_on "$1" || [ -e "$LAB/m$1.code" ]; then return 0; fi # on, or off again
    sleep 0.1
  done
  fail "machine $1 does not come up"
}

remove() {
  ip link del "m$1" 2> /dev/null || true
  ip netns del "m$1" 2> /dev/null || true
  rm -f "$LAB/m$1".*
}

# The first process of a machine: it is on as long as its node runs.
machine() {
  local pid _ node code=0
  read -r pid _ < /proc/self/stat # as the lab counts
  hostname "m$1"
  mount -t proc proc /proc
  mount -t tmpfs tmpfs /run
  mount -t tmpfs tmpfs /dev/shm
  XDG_RUNTIME_DIR=/run "$EVERMOE" node "$CONFIG" --out "$OUT" --node "$1" --nodes "$MACHINES" --spares "$SPARES" \
    --join 10.77.0.10:29600 "${FLAGS[@]}" &
  node=$!
  trap 'kill -USR1 $node' USR1
  echo "$pid" > "$LAB/m$1.pid"
  while kill -0 $node 2> /dev/null; do
    code=0
    wait $node || code=$?
  done
  echo $code > "$LAB/m$1.code"
}

# ---- inside: commands

check_number() {
  [[ ${1:-} =~ ^[0-9]{1,3}$ ]] && ((10#$1 < MACHINES)) ||
    refuse "'${1:-}' is no machine: a number from 0 to $((MACHINES - 1)) is"
}

check_on() {
  check_number "$@"
  is_on "$1" || fail "machine $1 is off"
}

do_status() { "$EVERMOE" status "$OUT" "$@"; }

do_kill() {
  check_on "$@"
  local parent _
  read -r _ _ _ parent _ < "/proc/$(< "$LAB/m$1.pid")/stat"
  ip link del "m$1" # before its processes end, so that nobody hears of it
  kill -KILL "$parent" # the `unshare` that takes it along, and complains if it goes alone
  remove "$1"
}

do_start() {
  check_number "$@"
  ! is_on "$1" || fail "machine $1 is on"
  remove "$1"
  touch "$LAB/m$1.start" # the first process does it: the machine writes where the lab does
  wait_for "$1"
}

do_leave() {
  check_on "$@"
  kill -USR1 "$(< "$LAB/m$1.pid")"
}

do_cut() {
  check_on "$@"
  ip link set "m$1" down
}

do_heal() {
  check_on "$@"
  tc qdisc del dev "m$1" root 2> /dev/null || true
  tc -n "m$1" qdisc del dev eth0 root 2> /dev/null || true
  ip link set "m$1" up
}

# shape N WORDS...: a queue of the kernel at both ends of the cable.
shape() {
  local n=$1
  shift
  tc qdisc replace dev "m$n" root "$@" && tc -n "m$n" qdisc replace dev eth0 root "$@"
}

do_slow() {
  local why
  check_on "$@"
  [[ ${2:-} =~ ^[1-9][0-9]*(kbit|mbit|gbit)$ ]] || refuse "'${2:-}' is no rate: 2mbit, 500kbit or the like is"
  why=$(shape "$1" tbf rate "$2" burst 64kb latency 200ms 2>&1) || fail "cannot slow a cable here (tc, sch_tbf): ${why%%$'\n'*}"
}

do_delay() {
  local why
  check_on "$@"
  [[ ${2:-} =~ ^[0-9]{1,5}$ ]] || refuse "'${2:-}' is no number of milliseconds"
  [[ ${3:-0} =~ ^[0-9]{1,2}(\.[0-9]+)?$ ]] || refuse "'$3' is no percentage below 100"
  why=$(shape "$1" netem delay "$2ms" loss "${3:-0}%" limit 10000 2>&1) ||
    fail "cannot delay packets here (tc, sch_netem): ${why%%$'\n'*}"
}

do_enter() {
  check_on "$@"
  local pid
  pid=$(< "$LAB/m$1.pid")
  shift
  nsenter --target "$pid" --mount --net --pid --uts --ipc "${@:-bash}"
}

# shellcheck source=/dev/null
[ -z "${LAB_INSIDE:-}" ] || source "$LAB/settings"
case ${1:-help} in
  help | -h | --help) usage ;;
  up) up "${@:2}" ;;
  down) down ;;
  first_process | machine) [ -n "${LAB_INSIDE:-}" ] && "$@" ;;
  status | kill | start | leave | cut | heal | slow | delay | enter)
    [ -n "${LAB_INSIDE:-}" ] || enter_lab "$@"
    "do_$1" "${@:2}"
    ;;
  *) refuse "'$1' is no command (lab.sh help)" ;;
esac
