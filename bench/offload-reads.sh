#!/bin/sh
# Whether the kernel knows which files are read, with MGLRU's generations and with the classic lists.
#
# Usage: bench/offload-reads.sh
#
# A container reads 256 files of 64 KiB once, and then half of them twice in each of four intervals.
# With MGLRU, a generation begins with each interval. Then half of the pages are reclaimed, by
# generation or by memory.reclaim, and the half is read again. VM_KERNELS (6.1 6.12 6.18) names the
# kernels. A machine takes a minute. Prints a Markdown table.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "| kernel | lists | pages in the oldest two generations | reclaimed | refaulted |"
echo "| --- | --- | --- | --- | --- |"
for kernel in ${VM_KERNELS:-6.1 6.12 6.18}; do
    for lists in generations classic; do
        vm/run --kernel "$kernel" --counted --memory 512M --pmem 64M --module nfit --module nd_pmem --module ext4 \
            --program mkfs.ext4 --out "$work" vm/offload/reads.sh $lists
        read -r idle reclaimed refaulted <"$work/pages"
        [ $lists = generations ] || idle=
        echo "| $kernel | $lists | $idle | $reclaimed | $refaulted |"
    done
done
