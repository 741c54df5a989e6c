# Brings a machine to where the project builds: Debian packages, PyTorch in .venv, a configured build
# folder. Sourced by ./quickstart and ./check; does nothing that is done already.

packages_came=no  # of Debian or Python; a build folder from before may leave out what they are for

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }
fail() { printf '%s\n' "$*" >&2; exit 1; }

install_packages() {
  command -v dpkg-query >/dev/null || fail "this set-up is for Debian 12 and its relatives; see scripts/packages.txt for what is needed"
  local missing=()
  while read -r package; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing+=("$package")
  done < <(cat "$@")
  [ ${#missing[@]} -eq 0 ] && return
  local root=()
  if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || fail "missing packages; as root: apt-get install -y --no-install-recommends ${missing[*]}"
    root=(sudo -n)
  fi
  say "installing ${#missing[@]} Debian packages"
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq || return 1
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || return 1
  packages_came=yes
}

# The same for what only some tests are about: they are left out, and it is said, where it cannot be had.
install_packages_if_possible() {
  local result=0
  (install_packages "$@" && { [ $packages_came = no ] || exit 10; }) || result=$?
  case $result in
    0) ;;
    10) packages_came=yes ;;
    *) say "going on without some of: $(cat "$@" | tr '\n' ' ')" ;;
  esac
}

# install_python FILE...: the pinned packages of these requirement files, in .venv.
install_python() {
  local stamp=.venv/installed-$(cat "$@" | sha256sum | cut -c1-16)
  [ -e "$stamp" ] && return
  say "installing PyTorch into .venv"
  [ -x .venv/bin/python ] || python3 -m venv .venv
  local files=()
  for file in "$@"; do files+=(-r "$file"); done
  .venv/bin/python -m pip install --quiet --disable-pip-version-check "${files[@]}" 2>&1 | grep -v '^WARNING: Location' >&2 || true
  .venv/bin/python -c 'import torch' || fail "PyTorch did not install into .venv"
  touch "$stamp"
  packages_came=yes
}

# build PRESET [TARGET...]: what tests lack is said only where everything is built.
build() {
  local preset=$1; shift
  local folder=build; [ "$preset" = release ] || folder=build-$preset
  local warnings=-Wdev; [ $# -eq 0 ] || warnings=-Wno-dev
  if [ ! -e "$folder/build.ninja" ] || [ $packages_came = yes ]; then
    cmake --preset "$preset" $warnings >/dev/null || fail "cmake --preset $preset failed"
  fi
  say "building ($preset)"
  cmake --build "$folder" ${1:+--target "$@"} -- -k 1 >"$folder/build.log" 2>&1 || {
    grep -E 'error|FAILED' -A5 "$folder/build.log" | head -60 >&2
    fail "the build failed; all of it is in $folder/build.log"
  }
}
