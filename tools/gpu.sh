#!/usr/bin/env bash
# What needs a CUDA device: the tests marked `cuda`, then a short bench without and with graphs. One line where there is none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}
has_device=$("$python" -c 'import torch; print(torch.cuda.is_available())')
if [ "$has_device" = False ]; then
	echo 'no CUDA device here: nothing of CUDA was run'
	exit 0
fi
"$python" -m pytest -q -n 0 -m cuda
for graphs in off on; do
	echo "== CUDA graphs $graphs"
	SPECVIZ_CUDA_GRAPHS=$graphs "$python" -m specviz lab bench --device cuda --methods ar,chain,tree --limit 4 --repeats 3
done
