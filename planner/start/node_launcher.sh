# Finds the real program behind a wrapper, and the interpreter it is for.
name=$1
shift
real=
# A shim (pyenv with the version `system`) goes on to the next program of its name on PATH: in the
# same process, to this file again.
taken=
case $name in
  python | python3) case $LAUNCH_TAKEN in "$$:"*) taken=${LAUNCH_TAKEN#*:} ;; esac ;;
esac
old_ifs=$IFS
IFS=:
for directory in $PATH; do
  [ "$directory" = "$LAUNCH_WRAPPERS" ] && continue
  case ":$taken:" in *":$directory:"*) continue ;; esac
  if [ -x "$directory/$name" ] && [ ! -d "$directory/$name" ]; then
    real=$directory/$name
    break
  fi
done
IFS=$old_ifs
if [ -z "$real" ]; then
  echo "launch: $name: command not found on this node, in PATH $PATH" >&2
  exit 127
fi
case $name in
  python | python3)
    export LAUNCH_TAKEN="$$:$taken:${real%/*}"
    exec "$real" "$LAUNCH_WRAPPERS/node_launcher.py" program "$real" "$@"
    ;;
esac
if [ "$name" = composer ]; then
  # It starts the ranks of a node by itself, and takes their number on all nodes from here.
  if [ "$LAUNCH_START" = node ] && [ "$NNODES" != 1 ]; then
    export WORLD_SIZE="${WORLD_SIZE:-$((NNODES * NPROC_PER_NODE))}"
  fi
  python=$LAUNCH_PYTHON
  unset LAUNCH_PYTHON
  exec ${python:+"$python"} "$real" "$@"
fi
python=$LAUNCH_PYTHON
if [ -z "$python" ]; then
  { read -r first; read -r second; } <"$real"
  case $first in
    '#!'*env\ *) python=${first##* } ;;
    '#!'*python*)
      python=${first#'#!'}
      python=${python# }
      python=${python%% *}
      ;;
    *)
      # pip's form for long paths: "'''exec' /path/python "$0" "$@"" in the second line.
      case $second in
        "'''exec' "*)
          python=${second#"'''exec' "}
          python=${python#\"}
          python=${python%%[\" ]*}
          ;;
      esac
      ;;
  esac
fi
exec "${python:-python3}" "$LAUNCH_WRAPPERS/node_launcher.py" "$name" "$real" "$@"
