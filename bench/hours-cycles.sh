#!/bin/sh
# The recorded kernel and the allocator `linux` after each cycle of ten minutes of a recording of
# vm/record-hours, with recorded and with simulated reclaim. Prints a table document for `experiments`.
# Usage: bench/hours-cycles.sh FOLDER
set -eu
folder=${1:?a folder that vm/record-hours wrote}
prairie=${PRAIRIE:-${CARGO_TARGET_DIR:-target}/release/prairie}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# all KEY FILE: all values of a key, in order.
all() { grep -oE "\"$1\": ?[0-9.]+" "$2" | sed 's/.*: *//'; }

for way in recorded simulated; do
    option=
    [ $way = recorded ] || option=--reclaim
    # shellcheck disable=SC2086 # no option, or one
    "$prairie" replay "$folder/trace.parquet" --systems linux $option --every 10m --json >"$work/json"
    # The first sample is the state at the start.
    all unusable_2_mib "$work/json" | tail -n +2 >"$work/$way-unusable"
    grep -A 1 '"potential_blocks"' "$work/json" >"$work/blocks"
    all mib_2 "$work/blocks" | tail -n +2 >"$work/$way-areas"
done
all unusable_2_mib "$folder/rows.jsonl" >"$work/unusable"
all potential_2_mib_min "$folder/rows.jsonl" >"$work/least"
all potential_2_mib_max "$folder/rows.jsonl" >"$work/most"
blocks=$(($(all memory_bytes "$folder/rows.jsonl" | head -n 1) >> 21))
rows=$(paste -d ' ' "$work/unusable" "$work/recorded-unusable" "$work/simulated-unusable" "$work/least" "$work/most" \
    "$work/recorded-areas" "$work/simulated-areas" | awk -v blocks="$blocks" 'NF == 7 {
        printf "%s[%d, %.3f, %.3f, %.3f, %.1f, %.1f, %.1f, %.1f]", (NR > 1 ? ",\n    " : ""), NR * 10,
            $1, $2, $3, 100 * $4, 100 * $5, 100 * $6 / blocks, 100 * $7 / blocks }')
cat <<END_OF_TABLE
{
  "name": "hours-cycles",
  "columns": [{"name": "minutes"}, {"name": "F_u(9), kernel"}, {"name": "recorded reclaim"},
    {"name": "simulated reclaim"}, {"name": "2 MiB areas, kernel, at least", "unit": "%"}, {"name": "at most", "unit": "%"},
    {"name": "recorded reclaim", "unit": "%"}, {"name": "simulated reclaim", "unit": "%"}],
  "rows": [
    $rows
  ]
}
END_OF_TABLE
