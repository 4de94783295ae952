# What the scripts in this directory share. Source it with $here set to the
# directory and $work to a scratch directory.
# shellcheck shell=bash

# tries COMMAND… runs it up to three times, each under a time limit, since a
# registry may be slow or stumble.
tries() {
  local try
  for try in 1 2 3; do
    if timeout --kill-after=10 "${fetch_limit:-300}" "$@"; then
      return 0
    fi
    echo "try $try of 3 failed: $*" >&2
    [ "$try" = 3 ] || sleep $((5 * try))
  done
  return 1
}

# venv REQUIREMENTS [PIP-ARGUMENTS…] makes a virtual environment that holds just
# what the file lists, or takes the one of an earlier run, and sets $python to
# its interpreter. The environment's name has the file's contents in it, so a
# changed file gets a new one.
venv() {
  local requirements=$1 dir
  shift
  python3 -c 'import ensurepip, venv' 2>/dev/null || {
    [ "$(id -u)" = 0 ] || {
      echo 'python3 has no venv and ensurepip; on Debian install python3-venv' >&2
      return 1
    }
    tries apt-get update -qq || { echo 'cannot fetch: the package lists of apt' >&2; return 1; }
    DEBIAN_FRONTEND=noninteractive tries apt-get install -y -qq --no-install-recommends python3 python3-venv ||
      { echo 'cannot fetch: python3 python3-venv, from apt' >&2; return 1; }
  }
  dir=${XDG_CACHE_HOME:-$HOME/.cache}/llmgw/$(basename "$requirements" .txt)-$({ python3 -VV; printf '%s ' "$@"; cat "$requirements"; } | sha256sum | cut -c1-16)
  python=$dir/bin/python
  if [ ! -e "$dir/complete" ]; then
    rm -rf "$dir"
    python3 -m venv "$dir"
    tries "$python" -m pip install --quiet --disable-pip-version-check --no-input --timeout 30 --only-binary :all: "$@" -r "$requirements" || {
      {
        echo "cannot fetch from PyPI, or cannot install, one of these (pip says which above):"
        grep -oE '^[A-Za-z0-9][^ \\]*==[^ \\]+' "$requirements" | sed 's/^/  /'
      } >&2
      return 1
    }
    touch "$dir/complete"
  fi
}

# engine_tests ENGINE MODEL [GO-TEST-FLAGS…] builds llmgw and runs the tests with
# $python, and $server if it is set.
engine_tests() {
  local engine=$1 model=$2
  shift 2
  cd "$here/../.."
  go vet ./.ci/engine
  go build -o "$work/llmgw" ./cmd/llmgw
  go test ./.ci/engine -count=1 -timeout "${test_limit:-5m}" "$@" \
    -args -engine "$engine" -python "$python" -model "$model" -llmgw "$work/llmgw" -server "${server-}"
}
