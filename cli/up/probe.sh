# What this machine says of itself, as NAME=VALUE lines; changes nothing: what is not there yet is tried
# where it would be made.
umask 077
uid=$(id -u)
if [ "$uid" = 0 ]; then
  programs=/opt/launch state=/var/lib/launch
else
  # A home may be shared by all hosts, and two of them may have one name; what an earlier release
  # installed without the second part stays where it is.
  host=$(uname -n)
  machine=$(cut -c1-8 /etc/machine-id 2>/dev/null)
  [ -d "$HOME/.local/state/launch/$host" ] || host=$host${machine:+-$machine}
  programs=$HOME/.local/share/launch/$host state=$HOME/.local/state/launch/$host
  echo "home=$(ls -di "$HOME")"
fi
echo "arch=$(uname -m)"
echo "glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed 's/^glibc //')"
echo "user=$(id -un)"
echo "uid=$uid"
echo "programs=$programs"
echo "state=$state"
echo "clock=$(date +%s)"
# The same for two names of one machine: its boot, and the directory as the kernel knows it, which containers
# and mounts of one machine have apart.
boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
place=$(readlink -m "$state" 2>/dev/null)
[ -n "$boot" ] && [ -n "$place" ] && echo "place=$boot $(P=$place awk '
  BEGIN { p = ENVIRON["P"]; n = 0 }
  $5 == "/" || $5 == p || index(p, $5 "/") == 1 { if (length($5) >= n) { n = length($5); r = $3 ":" $4 } }
  END { print r, p }' /proc/self/mountinfo 2>/dev/null)"
there() {  # the directory, or the nearest one above it
  place=$1
  while [ -n "$place" ] && ! [ -e "$place" ]; do place=${place%/*}; done
  echo "${place:-/}"
}
if [ -d "$programs" ] && [ -d "$state" ]; then echo made=1; fi
trap 'rm -f "$trial"' EXIT
trap 'exit 1' HUP INT TERM
trial=$(there "$programs")/.launch-probe.$$
if printf '#!/bin/sh\nexit 0\n' >"$trial" 2>/dev/null && [ -s "$trial" ] && chmod 700 "$trial" && [ -w "$(there "$state")" ]; then
  echo writable=1
  "$trial" 2>/dev/null && echo executable=1
fi
echo "free_kib=$(df -Pk "$(there "$programs")" 2>/dev/null | awk 'NR==2{print $4}')"
if [ -d /run/systemd/system ]; then
  if [ "$uid" = 0 ]; then
    echo keeper=system
  elif XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/run/user/$uid} systemctl --user show-environment >/dev/null 2>&1; then
    echo keeper=user
  fi
fi
echo "installed=$(readlink "$programs/current" 2>/dev/null | sed 's#.*/##')"
echo "controller=$(sha256sum "$state/controller/operator/ca.pem" 2>/dev/null | cut -c1-64)"
echo "controller_certificate=$(tr '\n' '|' <"$state/controller/operator/cert.pem" 2>/dev/null)"
echo "certificate=$(tr '\n' '|' <"$state/agent/identity/cert.pem" 2>/dev/null)"
for one in agent controller; do
  echo "${one}_settings=$(sha256sum "$state/$one.yaml" 2>/dev/null | cut -c1-64)"
done
echo "authority=$(sha256sum "$state/agent/identity/ca.pem" 2>/dev/null | cut -c1-64)"
exit 0
