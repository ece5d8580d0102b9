#!/usr/bin/env bash
# Trains in pieces of at most an hour, each going on where the last one stopped, until the file .cache/training/stop appears or
# a piece fails twice. Usage: setsid nice -n 19 training/run_pieces.sh [options of train.py] >log 2>&1 &
set -u
cd "$(dirname "$0")"
cache=${TRAINING_CACHE:-../.cache/training}
mkdir -p "$cache"
rm -f "$cache/stop"
# A session of its own gets its own share of the processor whatever its nice value; give most of that back.
if [ -w /proc/self/autogroup ]; then echo "${AUTOGROUP_NICE:-5}" >/proc/self/autogroup || true; fi
echo $$ >"$cache/pid"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} MALLOC_ARENA_MAX=2
failed=0
while [ ! -e "$cache/stop" ] && [ $failed -lt 2 ]; do
  date
  if "${PYTHON:-python3}" train.py --minutes 55 --resume "$@"; then failed=0; else failed=$((failed + 1)); sleep 30; fi
done
