# Runs in the guest of vm/record: a workload between snapshots, then brings the events out. The
# kernel has been tracing since it booted.
# Arguments: the workload's name.
set -eu
trace=/sys/kernel/tracing
snapshot() {
    /in/snapshot "$OUT" "$@"
}

snapshot early
. "/in/workloads/$1"
snapshot end 1
echo 0 >$trace/tracing_on
for cpu in "$trace"/per_cpu/cpu*; do
    echo "${cpu##*/}"
    cat "$cpu/stats"
done >"$OUT/ring.stats"
uname -r >"$OUT/release"
dmesg >"$OUT/dmesg"
trace-cmd extract -o "$OUT/trace.dat" >/dev/null
