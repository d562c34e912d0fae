# What the builders share; sourced by them, with bash.

# The machine's own, for builders that are not run as root.
PATH=$PATH:/usr/sbin:/sbin

die() {
  echo "${0##*/}: $*" >&2
  exit 1
}

# need PROGRAM:PACKAGE …  fails with one list of the packages that are missing.
need() {
  local pair missing=()
  for pair; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
  done
  [ ${#missing[@]} -eq 0 ] || die "install first: apt-get install --no-install-recommends $(printf '%s\n' "${missing[@]}" | sort -u | tr '\n' ' ')"
}

need_file() {
  [ -e "$1" ] || die "$1 is missing; install first: apt-get install --no-install-recommends $2"
}

# A folder for the work, gone at the end, however that comes. Builders add to it by a function `undo`.
work_folder() {
  work=$(mktemp -d "${TMPDIR:-/tmp}/golden.XXXXXX")
  # shellcheck disable=SC2154 # It is assigned there.
  trap 'status=$?; if declare -F undo >/dev/null; then undo; fi; rm -rf "$work"; exit $status' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

# apt_sources: where packages come from; this machine's own configuration if it is the same release, else the main archive.
apt_sources() {
  if [ -n "${APT_SOURCES:-}" ]; then
    echo "$APT_SOURCES"
  elif [ -e /etc/apt/sources.list.d/debian.sources ] && grep -qw "$1" /etc/apt/sources.list.d/debian.sources; then
    echo /etc/apt/sources.list.d/debian.sources
  else
    echo "deb http://deb.debian.org/debian $1 main"
  fi
}

# publish RAW OUT [qemu-img option …]  makes OUT appear at once and whole, or not at all.
publish() {
  local raw=$1 out=$2
  shift 2
  local partial
  partial=$(mktemp "$out.XXXXXX")
  if qemu-img convert -O qcow2 "$@" "$raw" "$partial" && chmod 0644 "$partial" && mv -f "$partial" "$out"; then
    echo "$out: $(($(stat -c %s "$out") / 1024 / 1024)) MiB in $SECONDS s"
  else
    rm -f "$partial"
    die "$out was not written"
  fi
}
