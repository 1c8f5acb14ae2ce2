#!/bin/sh
# Batch script of `launch up --slurm`, and what it runs on each node of the allocation.
#   allocation.sh PROGRAMS ADDRESS CREDENTIALS        by Slurm, on the first node
#   allocation.sh node PROGRAMS ADDRESS CREDENTIALS   by srun, once per node
# Some time before the end Slurm warns with USR1 (--signal), as `launch down` does: then no job starts on
# these nodes any more, those that run are asked to write a checkpoint and are queued again. Not by a
# signal to the nodes: srun would give it to every rank.
if [ "$1" != node ]; then
  leaving=$3/leaving-$SLURM_JOB_ID
  trap ': >"$leaving"' USR1 TERM
  srun --ntasks-per-node=1 --cpu-bind=none --kill-on-bad-exit=0 sh "$3/allocation.sh" node "$@" &
  step=$!
  # A trapped signal ends `wait` early.
  while kill -0 $step 2>/dev/null; do wait $step; done
  rm -f "$leaving"
  exit 0
fi

programs=$2 address=$3 credentials=$4
umask 077
node=${SLURMD_NODENAME:-$(uname -n)}
state=${TMPDIR:-/tmp}/launch-$SLURM_JOB_ID-$node
# Whoever makes this name first in a directory for all could change what is in it: the node's key, and
# settings that name programs. Ours is from before, when Slurm queued this allocation again.
if ! mkdir -m 700 "$state" 2>/dev/null && { [ -L "$state" ] || [ ! -d "$state" ] || [ ! -O "$state" ]; }; then
  echo "$node: $state cannot be made, or is somebody else's: remove it, or set TMPDIR to a directory of yours" >&2
  exit 1
fi
chmod 700 "$state" || exit
launch() { "$programs/launch" --controller "$address" --credentials "$credentials" "$@"; }

# The GPUs that Slurm gave us; all of them where it does not know of GPUs.
gpus=${SLURM_STEP_GPUS:-${SLURM_JOB_GPUS:-}}
if [ -n "$gpus" ]; then
  # In a cgroup that hides the others they count from 0 again.
  if [ "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')" = "$(echo "$gpus" | tr , '\n' | grep -c .)" ]; then
    gpus=all
  fi
elif scontrol show node "$node" 2>/dev/null | grep -q 'Gres=.*gpu'; then
  gpus=none
else
  gpus=all
fi
case $gpus in
  all) : ;;
  none) echo 'gpu_ids: []' ;;
  *) echo "gpu_ids: [$gpus]" ;;
esac >"$state/agent.yaml"
# What `launch up --slurm --settings` says, one key a line.
label="slurm_job: \"$SLURM_JOB_ID\""
settings=$credentials/allocation-agent.yaml
if grep -q '^labels: {' "$settings" 2>/dev/null; then
  sed "s/^labels: {/labels: {$label, /" "$settings"
else
  cat "$settings" 2>/dev/null
  echo "labels: {$label}"
fi >>"$state/agent.yaml"

join() {
  launch token create --node "$node" --address "$address" >"$state/token" &&
    "$programs/launch-agent" join --config "$state/agent.yaml" --state-dir "$state/agent" "$@" <"$state/token"
}
# A node of an earlier allocation is known by its name.
join || join --rejoin || exit
rm -f "$state/token"
launch undrain "$node" || exit

run_agent() {
  "$programs/launch-agent" run --config "$state/agent.yaml" --state-dir "$state/agent" --lock-dir "$state/locks" &
  agent=$!
}
# Below the user's home, which outlives the node: output of the ranks, then what they wrote into copies of
# workdirs. Environments that `setup` made are left out: another node makes its own.
keep() {
  kept=${XDG_STATE_HOME:-$HOME/.local/state}/launch/slurm-$SLURM_JOB_ID/$node
  if [ -d "$state/agent/allocations" ]; then
    mkdir -p "$kept/output" && (
      cd "$state/agent/allocations" &&
        find . \( -name out -o -name err -o -name error.json -o -name stacks \) -path '*/rank.*/*' -size +0 \
          -exec cp -a --sparse=auto --parents -t "$kept/output" {} +
    ) || return
  fi
  if [ -d "$state/agent/work" ]; then
    mkdir -p "$kept/work" || return
    { tar -C "$state/agent/work" --exclude-tag-all=pyvenv.cfg --exclude=__pycache__ --sparse -cf - . ||
      : >"$state/incomplete"; } | tar -C "$kept/work" -xf - && [ ! -e "$state/incomplete" ] || return
  fi
  [ ! -d "$kept" ] || echo "$node: output of its ranks and copies of workdirs are in $kept"
}
leave() {
  trap '' TERM
  # Who takes the nodes away by TERM gives it to the agent too; it is needed to stop the ranks.
  kill -0 $agent 2>/dev/null || run_agent
  launch drain "$node" --reason "its Slurm allocation $SLURM_JOB_ID ends" --requeue --wait
  kill $agent
  wait $agent
  if keep; then
    rm -rf "$state"
  else
    echo "$node: output of its ranks could not be brought to $kept; it is on the node in $state" >&2
  fi
  exit 0
}
trap leave TERM
run_agent
while [ ! -e "$credentials/leaving-$SLURM_JOB_ID" ]; do
  sleep 1
  kill -0 $agent 2>/dev/null || run_agent
done
leave
