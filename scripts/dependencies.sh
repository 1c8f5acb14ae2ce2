# Installs what a bare Debian 12 (or Ubuntu 22.04+) lacks; sourced by the other scripts.
# Only what is missing is asked for, so a second run costs nothing and needs no rights.

LAUNCH_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

BUILD_PACKAGES="cmake ninja-build g++ ccache mold pkg-config protobuf-compiler protobuf-compiler-grpc
  libgrpc++-dev libprotobuf-dev libssh-dev libyaml-cpp-dev libsqlite3-dev libssl-dev libspdlog-dev
  libfmt-dev libcli11-dev nlohmann-json3-dev libexpected-dev libre2-dev libhwloc-dev"
# For aarch64, built and tried on another processor.
CROSS_PACKAGES="g++-aarch64-linux-gnu binutils-aarch64-linux-gnu qemu-user"
# The address sanitizer's build uses clang: its objects compile twice as fast as those of g++ 12. The
# thread sanitizer's stays with g++, whose runtime finds the names of tests/tsan.supp by itself.
TEST_PACKAGES="openssh-server openssh-client libgtest-dev libbenchmark-dev iproute2 clang-format git
  python3 python3-venv clang-19 libclang-rt-19-dev slurmctld slurmd slurm-client munge
  tcsh fish make sudo systemd"
RUN_PYTHON_PACKAGES="torch==2.13.0 numpy==2.2.6"
# The trainers' libraries load what a plan writes for them and train a step with it.
TEST_PYTHON_PACKAGES="$RUN_PYTHON_PACKAGES pytest==8.4.2 pytest-xdist==3.8.0 deepspeed==0.19.8 accelerate==1.15.0
  transformers==5.23.0 kubernetes-validate==1.37.0 lightning-fabric==2.6.6"

say() { printf '==> %s\n' "$*" >&2; }

# ensure_packages NAME...: apt packages that are not installed yet.
ensure_packages() {
  local missing=() name
  for name in "$@"; do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q '^install ok installed$' ||
      missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  say "installing packages: ${missing[*]}"
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
      say "these packages are missing and there is no sudo: ${missing[*]}"
      return 1
    }
    sudo=(sudo)
  fi
  "${sudo[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
}

# ensure_python PACKAGE...: a virtual environment in .venv that has these; prints its path.
ensure_python() {
  local venv=$LAUNCH_ROOT/.venv package missing=()
  if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    python3 -c 'import ensurepip, venv' 2>/dev/null || ensure_packages python3 python3-venv >&2
    rm -rf "$venv"
    python3 -m venv "$venv" >&2
  fi
  for package in "$@"; do
    grep -qxF "$package" "$venv/.launch-packages" 2>/dev/null || missing+=("$package")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    say "installing into .venv: ${missing[*]}"
    # An install that was cut short can leave an environment that pip itself fails on.
    if [ -d "$venv/lib" ] && ! "$venv/bin/python" -m pip list --disable-pip-version-check >/dev/null 2>&1; then
      say "$venv is broken: made anew"
      rm -rf "$venv"
      python3 -m venv "$venv" >&2
    fi
    # All at once, so that none of them replaces a pinned one.
    "$venv/bin/python" -m pip install -q --disable-pip-version-check "$@" >&2
    printf '%s\n' "$@" | sort -u - <(cat "$venv/.launch-packages" 2>/dev/null) >"$venv/.launch-packages.new"
    mv "$venv/.launch-packages.new" "$venv/.launch-packages"
  fi
  printf '%s\n' "$venv"
}
