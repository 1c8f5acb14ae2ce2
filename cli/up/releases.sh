# releases.sh take NAME BYTES DIGEST DIR RELEASE...
#   prints `same` where DIR has this content as program NAME, `taken` where another release had it (a hard
#   link, or a copy over file systems), else `missing`.
# releases.sh tidy RELEASES NEW OLD
#   removes the releases that are neither of these two, and that no process runs from: a program that runs
#   starts its helpers from there; prints how many.
is() {  # PATH
  [ -f "$1" ] && [ "$(wc -c <"$1")" -eq "$bytes" ] && [ "$(sha256sum <"$1" | cut -c1-64)" = "$digest" ]
}
take() {
  name=$1 bytes=$2 digest=$3 dir=$4
  shift 4
  if [ -x "$dir/$name" ] && is "$dir/$name"; then
    echo same
    return
  fi
  part=$dir/.$name.part.$$
  seen=" "  # several names of one file are read once
  for other in "$@"; do
    [ -f "$other/$name" ] || continue
    inode=$(ls -i "$other/$name" | sed 's/^ *\([0-9]*\).*/\1/')
    case $seen in *" $inode "*) continue ;; esac
    seen="$seen$inode "
    is "$other/$name" || continue
    ln "$other/$name" "$part" 2>/dev/null || cp "$other/$name" "$part" || continue
    if is "$part" && chmod 755 "$part" && mv -f "$part" "$dir/$name"; then
      echo taken
      return
    fi
    rm -f "$part"
  done
  echo missing
}
tidy() {
  cd "$1" || exit 0
  real=$(pwd -P)
  used=
  for exe in /proc/[0-9]*/exe; do
    path=$(readlink "$exe" 2>/dev/null) || continue
    case $path in
      "$real"/*)
        path=${path#"$real"/}
        used="$used ${path%%/*} "
        ;;
    esac
  done
  count=0
  for old in *; do
    [ -d "$old" ] || continue
    case $old in "$2" | "$3") continue ;; esac
    case $used in *" $old "*) continue ;; esac
    rm -rf -- "./$old" && count=$((count + 1))
  done
  echo $count
}
umask 022
"$@"
