# service.sh keep|end NAME PROGRAMS STATE KEEPER SETTINGS ARGUMENT... <UNIT
#   keep: sees to it that NAME runs from the current release, as a systemd unit or as a plain process;
#         prints running or started. SETTINGS is what its file (STATE/agent.yaml, STATE/controller.yaml) shall
#         hold, empty = there is none: other settings than are there start it anew
#   end:  ends it; nothing to end is fine
# What runs is known by its command line, not by a number that may be another's; /proc/PID/exe is closed
# to all but root.
verb=$1 name=$2 programs=$(readlink -f "$3") state=$4 keeper=$5 settings=$6
exe=$3/current/$name
shift 6
want=$(readlink -f "$exe")
file=$state/$name.pid
config=$state/${name#launch-}.yaml
program_of() { [ -n "$1" ] && tr '\0' '\n' 2>/dev/null <"/proc/$1/cmdline" | head -n 1; }
other_settings() {
  if [ -n "$settings" ]; then [ "$(cat "$config" 2>/dev/null)" != "$settings" ]; else [ -e "$config" ]; fi
}
write_settings() {  # while nothing runs: what runs has read what is there
  if [ -z "$settings" ]; then
    rm -f "$config"
    return
  fi
  printf '%s\n' "$settings" >"$config.new" || {  # on a full disk: half of it says something else
    rm -f "$config.new"
    return 1
  }
  sync "$config.new" 2>/dev/null
  mv -f "$config.new" "$config"
}
settle() {  # a program that cannot start ends within half a second
  i=0
  while [ $i -lt 5 ]; do sleep 0.1; i=$((i + 1)); done
}
end_plain() {  # one of ours, of whatever release; false when it does not end within 15 s
  pid=$(cat "$file" 2>/dev/null)
  case $(program_of "$pid") in
    "$programs"/releases/*/"$name") ;;
    *) return 0 ;;
  esac
  kill "$pid"
  i=0
  while kill -0 "$pid" 2>/dev/null && [ $i -lt 150 ]; do sleep 0.1; i=$((i + 1)); done
  if kill -0 "$pid" 2>/dev/null; then
    echo "$name (pid $pid) does not end" >&2
    return 1
  fi
}
keep_plain() {
  if ! other_settings && [ "$(program_of "$(cat "$file" 2>/dev/null)")" = "$want" ]; then
    echo running
    return 0
  fi
  end_plain || return 1
  if other_settings; then write_settings || return 1; fi
  : >>"$state/$name.log"
  umask 022  # ranks inherit it
  setsid nohup "$want" "$@" >>"$state/$name.log" 2>&1 </dev/null &
  pid=$!
  echo "$pid" >"$file"
  settle
  if ! kill -0 "$pid" 2>/dev/null; then
    tail -n 5 "$state/$name.log" >&2
    return 1
  fi
  echo started
}
keep_unit() {
  if [ "$keeper" = user ]; then
    # So that it starts at boot and outlives the login.
    loginctl enable-linger "$(id -un)" >/dev/null 2>&1
    if [ "$(loginctl show-user -p Linger --value "$(id -un)" 2>/dev/null)" != yes ]; then
      echo "without linger it would end with the login; ask root for: loginctl enable-linger $(id -un)" >&2
      return 1
    fi
  fi
  mkdir -p "$dir"
  # The release stands in the unit, so that another release is another unit.
  sed "s#^ExecStart=$exe #ExecStart=$want #" >"$dir/.$name.new"
  if ! other_settings && cmp -s "$dir/.$name.new" "$dir/$name.service" && $ctl is-active -q "$name"; then
    rm -f "$dir/.$name.new"
    echo running
    return 0
  fi
  if other_settings; then
    [ -f "$dir/$name.service" ] && $ctl stop "$name"
    write_settings || return 1
  fi
  chmod 644 "$dir/.$name.new" && mv "$dir/.$name.new" "$dir/$name.service" || return 1
  $ctl daemon-reload && $ctl enable -q "$name" && $ctl restart "$name" || return 1
  settle
  $ctl is-active -q "$name" || {
    $ctl status --no-pager -n 5 "$name" >&2
    return 1
  }
  echo started
}
end_unit() {
  [ -f "$dir/$name.service" ] || return 0
  $ctl disable -q --now "$name" || return 1
  rm -f "$dir/$name.service"
  $ctl daemon-reload
}

if [ "$verb" = keep ] && [ -e "$config" ] && other_settings && ! grep -q '^# Written by .launch up.' "$config"; then
  echo "$config is not of launch up: bring what it says into the hosts file, and move it away" >&2
  exit 1
fi
# Ranks of other accounts pass through; what is in it is closed by itself.
if [ "$verb" = keep ] && [ "$name" = launch-agent ] && [ "$(id -u)" = 0 ]; then chmod 711 "$state"; fi

case $keeper in
  plain)
    if [ "$verb" = keep ]; then keep_plain "$@"; else end_plain && rm -f "$file"; fi
    exit
    ;;
  system)
    dir=/etc/systemd/system
    ctl=systemctl
    ;;
  user)
    dir=$HOME/.config/systemd/user
    ctl="systemctl --user"
    XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}
    export XDG_RUNTIME_DIR
    ;;
esac
"${verb}_unit"
