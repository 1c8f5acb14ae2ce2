# Whether the unit in effect is this package's, and not one of `launch up` or the administrator's.
ours() {
  [ ! -e "/etc/systemd/system/$1" ]
}

# How many ranks run under the package's supervisor, also one whose program was removed.
supervised() {
  count=0
  for exe in /proc/[0-9]*/exe; do
    case $(readlink "$exe" 2>/dev/null || true) in
      /usr/bin/launch-shim | "/usr/bin/launch-shim (deleted)") count=$((count + 1)) ;;
    esac
  done
  echo "$count"
}
