#!/usr/bin/env bash
# The tests of engine and methods as other processors would run them, as far as this one can stand for them: with other
# products of torch, and with the kernel built for other vector units, by another compiler and not at all.
# tools/other_processors.sh [-v VARIANT,..] [PYTEST ARGUMENTS]     exit code 1 where a test failed
set -u
cd "$(dirname "$0")/.."
all="as-it-is aten-default aten-avx2 mkl-compatible mkl-avx2 onednn-avx2 kernel-avx2 kernel-plain clang no-compiler compile-off"
wanted=$all
if [ "${1:-}" = -v ]; then wanted=${2//,/ }; shift 2; fi
[ $# -gt 0 ] || set -- tests/engine tests/methods
python=$(command -v "${PYTHON:-.venv/bin/python}" || command -v python) || { echo "no python: make test builds .venv" >&2; exit 2; }
logs=$(mktemp -d)
trap 'rm -rf "$logs/cc" "$logs/bin" "$logs/cache"' EXIT

compiler_with() {  # the machine's compiler with flags behind its own: the last -march counts
  printf '#!/bin/sh\nexec %s "$@" %s\n' "$(command -v cc || command -v gcc)" "$1" > "$logs/cc"
  chmod +x "$logs/cc"
}

path_without_compiler() {  # all programs but compilers
  mkdir -p "$logs/bin"
  local folder
  for folder in ${PATH//:/ }; do
    find "$folder/" -maxdepth 1 ! -type d ! -name 'cc' ! -name 'c[89]9' ! -name '*gcc*' ! -name 'clang*' \
      -exec ln -st "$logs/bin" {} + 2>/dev/null
  done
  [ -e "$logs/bin/env" ]  # of a name in two folders the first is linked, and ln complains of the other
}

settings() {  # of a variant, as arguments of env; fails where this machine cannot stand for it
  case $1 in
    as-it-is) ;;
    aten-default | aten-avx2) echo "ATEN_CPU_CAPABILITY=${1#aten-}" ;;
    mkl-compatible) echo MKL_CBWR=COMPATIBLE ;;
    mkl-avx2) echo MKL_CBWR=AVX2 ;;
    onednn-avx2) echo ONEDNN_MAX_CPU_ISA=AVX2 ;;
    kernel-avx2) [ "$(uname -m)" = x86_64 ] && compiler_with -march=x86-64-v3 && echo "CC=$logs/cc" ;;
    # without vector units gcc works for minutes on what no processor of today needs: its bits are tried, not its speed
    kernel-plain) [ "$(uname -m)" = x86_64 ] && compiler_with '-march=x86-64 -O1' && echo "CC=$logs/cc" ;;
    clang) command -v clang > /dev/null && echo CC=clang ;;
    no-compiler) path_without_compiler && echo "CC= PATH=$logs/bin" ;;
    compile-off) echo SPECVIZ_COMPILE=off ;;
    *) echo "unknown variant '$1': $all" >&2; exit 2 ;;
  esac
}

count() { grep -oE "[0-9]+ $1" "$2" | tail -1 | grep -oE '[0-9]+' || echo 0; }

worst=0
row='%-16s %7s %7s %8s %8s\n'
printf "$row" variant passed failed skipped seconds
for variant in $wanted; do
  chosen=$(settings "$variant") || { [ $? -eq 2 ] && exit 2; printf "$row" "$variant" - - - "not here"; continue; }
  rm -rf "$logs/cache"
  began=$SECONDS
  # A cache of its own: what was found or built for one processor is not told to another.
  # shellcheck disable=SC2086
  env XDG_CACHE_HOME="$logs/cache" OMP_NUM_THREADS=1 $chosen "$python" -m pytest -q "$@" > "$logs/$variant" 2>&1
  code=$?
  last=$(tail -1 "$logs/$variant" > "$logs/last"; echo "$logs/last")
  failed=$(($(count failed "$last") + $(count error "$last")))
  if [ $code -gt 1 ]; then  # pytest did not come to its end: what it counted says nothing
    printf "$row" "$variant" - - - $((SECONDS - began))
  else
    printf "$row" "$variant" "$(count passed "$last")" "$failed" "$(count skipped "$last")" $((SECONDS - began))
  fi
  if [ $code -ne 0 ]; then
    worst=1
    grep -E '^(FAILED|ERROR)' "$logs/$variant" | cut -c1-200 >&2
    echo "code $code: $logs/$variant" >&2
  fi
done
exit $worst
