#!/bin/sh
# Contiguitas mechanism by mechanism, on the four workloads: docs/src/results/contiguitas.md.
#
#   bench/ablation.sh [PRAIRIE] [FOLDER]
set -eu
prairie=${1:-target/release/prairie}
folder=${2:-$(mktemp -d)}
"$prairie" fleet run --out "$folder" --systems ablation --servers 4 --memory 4G --days 0.3
"$prairie" fleet report "$folder"
