# keep.sh NAME PROGRAMS STATE KEEPER ARGUMENT... <UNIT: sees to it that NAME runs from the current
# release, as a systemd unit or as a plain process; prints running or started. What runs is known by
# its command line, not by a number that may be another's; /proc/PID/exe is closed to all but root.
name=$1 programs=$(readlink -f "$2") state=$3 keeper=$4
exe=$2/current/$name
shift 4
want=$(readlink -f "$exe")
program_of() { [ -n "$1" ] && tr '\0' '\n' 2>/dev/null <"/proc/$1/cmdline" | head -n 1; }
settle() {  # a program that cannot start ends within half a second
  i=0
  while [ $i -lt 5 ]; do sleep 0.1; i=$((i + 1)); done
}

if [ "$keeper" = plain ]; then
  file=$state/$name.pid
  pid=$(cat "$file" 2>/dev/null)
  if [ "$(program_of "$pid")" = "$want" ]; then echo running; exit 0; fi
  case $(program_of "$pid") in
    "$programs"/releases/*/"$name")
      kill "$pid"
      i=0
      while kill -0 "$pid" 2>/dev/null && [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done
      ;;
  esac
  : >>"$state/$name.log"
  umask 022  # ranks inherit it
  setsid nohup "$want" "$@" >>"$state/$name.log" 2>&1 </dev/null &
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
  if [ "$(loginctl show-user -p Linger --value "$(id -un)" 2>/dev/null)" != yes ]; then
    echo "without linger it would end with the login; ask root for: loginctl enable-linger $(id -un)" >&2
    exit 1
  fi
fi
mkdir -p "$dir"
# The release stands in the unit, so that another release is another unit.
sed "s#^ExecStart=$exe #ExecStart=$want #" >"$dir/.$name.new"
if cmp -s "$dir/.$name.new" "$dir/$name.service" && $ctl is-active -q "$name"; then
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
