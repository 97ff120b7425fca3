#!/usr/bin/env bash
# The kernel's tests with its C under sanitizers, by every compiler that is here; every warning is an error too.
# A user's build has no such flags, so that a warning that only a newer compiler knows takes the kernel from nobody.
# SANITIZE_TESTS names other tests. gcc: AddressSanitizer and UndefinedBehaviorSanitizer; clang needs no library of its own
# for the second, and has the first where its runtime is installed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}
tests=${SANITIZE_TESTS:-$(echo tests/engine/test_{compiled,program,row_kernel,surplus,grids}.py tests/methods/trained/test_compiled_layers.py)}
# What a vector is handed over in is of no matter: every function that takes one is compiled into its caller.
strict='-Wall -Wextra -Werror -Wno-psabi -g'
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0 tried=0

# under NAME PRELOADED COMPILER FLAG ..: the tests with that compiler, in a cache of their own
under() {
	local name=$1 preloaded=$2
	shift 2
	# The compiler itself runs without what is loaded before the tests.
	printf '#!/bin/sh\nunset LD_PRELOAD\nexec %s "$@"\n' "$*" >"$folder/$name" && chmod +x "$folder/$name"
	echo "== $*"
	tried=1
	CC="$folder/$name" XDG_CACHE_HOME="$folder/cache-$name" SPECVIZ_COMPILE=auto OMP_NUM_THREADS=1 LD_PRELOAD="$preloaded" \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
		"$python" -m pytest -q -n 0 -p no:cacheprovider $tests || failed=1
	[ -n "$(ls "$folder/cache-$name"/specviz/compiled/*.so 2>/dev/null)" ] || { echo "$*: no kernel was built" >&2; failed=1; }
}

for compiler in gcc clang; do
	command -v "$compiler" >/dev/null || { echo "no $compiler here: left out"; continue; }
	runtime=$("$compiler" -print-file-name="$([ "$compiler" = gcc ] && echo libasan.so || echo "libclang_rt.asan-$(uname -m).so")")
	if [ "$compiler" = gcc ]; then
		under gcc-undefined '' gcc $strict -fsanitize=undefined -fno-sanitize-recover=all
	else
		under clang-undefined '' clang $strict -fsanitize=undefined -fsanitize-trap=all
	fi
	if [ -e "$runtime" ]; then
		under "$compiler-address" "$runtime" "$compiler" $strict -fsanitize=address "$([ "$compiler" = clang ] && echo -shared-libasan)"
	else
		echo "no AddressSanitizer of $compiler here: left out"
	fi
done
[ "$tried" = 1 ] || echo "no C compiler here: nothing to sanitize"
exit "$failed"
