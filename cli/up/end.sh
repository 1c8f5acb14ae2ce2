# end.sh NAME PROGRAMS STATE KEEPER: ends what keep.sh started; nothing to end is fine.
name=$1 programs=$(readlink -f "$2") state=$3 keeper=$4
program_of() { [ -n "$1" ] && tr '\0' '\n' 2>/dev/null <"/proc/$1/cmdline" | head -n 1; }
if [ "$keeper" = plain ]; then
  pid=$(cat "$state/$name.pid" 2>/dev/null)
  case $(program_of "$pid") in
    "$programs"/releases/*/"$name")
      kill "$pid"
      i=0
      while kill -0 "$pid" 2>/dev/null && [ $i -lt 150 ]; do sleep 0.1; i=$((i + 1)); done
      if kill -0 "$pid" 2>/dev/null; then
        echo "$name (pid $pid) does not end" >&2
        exit 1
      fi
      ;;
  esac
  rm -f "$state/$name.pid"
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
fi
[ -f "$dir/$name.service" ] || exit 0
$ctl disable -q --now "$name" || exit 1
rm -f "$dir/$name.service"
$ctl daemon-reload
