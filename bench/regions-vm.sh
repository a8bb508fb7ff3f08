#!/bin/sh
# Contiguity and its price under the mixed load: a stock kernel, the regions daemon, a naive loop, kernelcore=.
# Usage: bench/regions.sh FOLDER
#
# Prints a table document for `experiments` on standard output. AGENTS and VM_KERNELS select runs;
# SECONDS_EACH sets how long the load lasts. PRAIRIE and KERNEL_LOAD name binaries to use. One run
# each, by time and not by work: contiguity compares, speed does not.
set -eu
cd "$(dirname "$0")/.."
folder=${1:?a folder for what the guests say}
mkdir -p "$folder/bin"
target=${CARGO_TARGET_DIR:-target}
strip -o "$folder/bin/prairie" "${PRAIRIE:-$target/release/prairie}"
strip -o "$folder/bin/kernel_load" "${KERNEL_LOAD:-$target/release/examples/kernel_load}"
rows=
for kernel in ${VM_KERNELS:-6.1}; do
    for agent in ${AGENTS:-stock daemon naive kernelcore}; do
        out=$folder/$kernel-$agent append=
        [ "$agent" != kernelcore ] || append="--append kernelcore=1G"
        # shellcheck disable=SC2086 # lists of words
        vm/run --kernel "$kernel" --memory 4G --low 256M --cpus 2 --disk 6G --timeout 1500 $append \
            --module ext4 --program mke2fs --program "$folder/bin/prairie" --file "$folder/bin:bin" \
            --file vm/regions/common.sh --file vm/regions/measured.toml --file vm/regions/naive.sh \
            --out "$out" vm/regions/mixed.sh "$agent" "${SECONDS_EACH:-150}" >&2 || echo "$out: the guest ended with $?" >&2
        [ -s "$out/result" ] || continue
        row=$(tr ' ' '\n' <"$out/result" | awk -F= -v kernel="$kernel" -v agent="$agent" '
            { value[$1] = $2 }
            END {
                printf "[\"%s\", \"%s\", %d, %d, %d, %.1f, %d, %d]", kernel, agent, value["clean_32m"],
                    value["areas_32m"], value["hugetlb_2m"], value["psi_us"] / 1e6, value["oom"], value["stalls"]
            }')
        rows="$rows${rows:+, }$row"
    done
done
cat <<END
{
  "name": "regions-mixed",
  "columns": [{"name": "kernel"}, {"name": "agent"}, {"name": "32 MiB areas without unmovable frames"},
    {"name": "32 MiB areas"}, {"name": "hugetlb pages of 2 MiB"}, {"name": "PSI some", "unit": "s"},
    {"name": "OOM kills"}, {"name": "allocstall_normal"}],
  "rows": [$rows],
  "rounds": "1",
  "notes": ["4 GiB, 256 MiB of it below 4 GiB, 2 emulated CPUs on a shared host: contiguity compares, times do not."]
}
END
