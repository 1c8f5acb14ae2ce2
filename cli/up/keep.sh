# keep.sh NAME PROGRAMS STATE KEEPER ARGUMENT... <UNIT: sees to it that NAME runs from the current
# release, as a systemd unit or as a plain process; prints running or started. What runs is known by
# its executable, not by a number that may be another's.
name=$1 programs=$2 state=$3 keeper=$4
shift 4
exe=$programs/current/$name
want=$(readlink -f "$exe")
runs() { [ -n "$1" ] && [ "$1" != 0 ] && [ "$(readlink "/proc/$1/exe" 2>/dev/null)" = "$want" ]; }
settle() {  # a program that cannot start ends within half a second
  i=0
  while [ $i -lt 5 ]; do sleep 0.1; i=$((i + 1)); done
}

if [ "$keeper" = plain ]; then
  file=$state/$name.pid
  pid=$(cat "$file" 2>/dev/null)
  if runs "$pid"; then echo running; exit 0; fi
  case $(readlink "/proc/$pid/exe" 2>/dev/null) in
    "$programs"/releases/*/"$name" | "$programs"/releases/*/"$name (deleted)")
      kill "$pid"
      i=0
      while kill -0 "$pid" 2>/dev/null && [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done
      ;;
  esac
  setsid nohup "$exe" "$@" >>"$state/$name.log" 2>&1 </dev/null &
  pid=$!
  echo "$pid" >"$file"
  settle
  if ! kill -0 "$pid" 2>/dev/null; then
    tail -n 5 "$state/$name.log" >&2
    exit 1
  fi
  echo started
  exit 0
fi

if [ "$keeper" = system ]; then
  dir=/etc/systemd/system
  ctl=systemctl
else
  dir=$HOME/.config/systemd/user
  ctl="systemctl --user"
  XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}
  export XDG_RUNTIME_DIR
  # So that it starts at boot and outlives the login.
  loginctl enable-linger "$(id -un)" >/dev/null 2>&1
fi
mkdir -p "$dir"
cat >"$dir/.$name.new"
if cmp -s "$dir/.$name.new" "$dir/$name.service" &&
  runs "$($ctl show -p MainPID --value "$name" 2>/dev/null)"; then
  rm -f "$dir/.$name.new"
  echo running
  exit 0
fi
chmod 644 "$dir/.$name.new" && mv "$dir/.$name.new" "$dir/$name.service" || exit 1
$ctl daemon-reload && $ctl enable -q "$name" && $ctl restart "$name" || exit 1
settle
$ctl is-active -q "$name" || {
  $ctl status --no-pager -n 5 "$name" >&2
  exit 1
}
echo started
