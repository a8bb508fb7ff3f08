# Runs in the guest of vm/record-hours: cycles of mixed work while the machine records itself.
# Arguments: HOURS.
set -eu
hours=$1 cycle_seconds=600
# mounted DEVICE FOLDER: with ext4, which busybox's mke2fs does not know.
mounted() {
    for mke2fs in /usr/sbin/mke2fs /sbin/mke2fs; do [ -x $mke2fs ] && break; done
    $mke2fs -q -t ext4 -N 200000 "$1"
    mkdir -p "$2"
    mount -t ext4 "$1" "$2"
}
mounted /dev/vdc /disk
# The trace is larger than what the guest's memory should give it.
mounted /dev/vdd "$OUT"
mkdir /small
mount -t tmpfs -o size=400M none /small
seconds() { cut -d. -f1 /proc/uptime; }
# files FOLDER COUNT: small files.
files() {
    mkdir -p "$1"
    n=0
    while [ $n -lt "$2" ]; do n=$((n + 1)); echo $n >"$1/$n"; done
}
# write_and_read: 1.5 GiB of files in turn, most of which memory cannot keep.
write_and_read() {
    n=0
    while [ $n -lt 12 ]; do
        n=$((n + 1))
        dd if=/dev/zero of=/disk/f$(((cycle * 5 + n) % 16)) bs=1M count=64 2>/dev/null
        dd if=/disk/f$(((cycle * 3 + n) % 16)) of=/dev/null bs=1M count=64 2>/dev/null || true
    done
}
processes() {
    n=0
    while [ $n -lt 300 ]; do n=$((n + 1)); true | cat; /bin/true; done
}
# huge_pages: reserves 2 MiB pages for a moment, as a service does when it starts.
huge_pages() {
    echo 200 >/proc/sys/vm/nr_hugepages
    echo "cycle=$cycle huge_pages=$(cat /proc/sys/vm/nr_hugepages) free_kib=$(sed -n 's/^MemFree: *\([0-9]*\).*/\1/p' /proc/meminfo) $(sed -n 's/^compact_stall /compact_stall=/p' /proc/vmstat)" >>"$OUT/samples"
    echo 0 >/proc/sys/vm/nr_hugepages
}

cat /proc/vmstat >"$OUT/vmstat.before"
/in/bin/prairie record --pins --output "$OUT/trace.parquet" --for "${hours}h" >"$OUT/record" 2>&1 &
recorder=$!
sleep 5
# A recorder that refuses does so at once; the work would take the host half an hour.
kill -0 $recorder && ! grep -q 'not recorded' "$OUT/record" || { cat "$OUT/record"; exit 1; }
start=$(seconds)
cycle=0
while [ $cycle -lt $((hours * 3600 / cycle_seconds)) ]; do
    cycle=$((cycle + 1))
    /in/bin/kernel_load pipes 120 10 12 1200 >/dev/null &
    /in/bin/kernel_load pipes 200 20 0 30 >/dev/null &
    short=$!
    /in/bin/kernel_load pins 4 1200 >/dev/null &
    /in/bin/kernel_load pins 16 30 >/dev/null &
    write_and_read &
    processes &
    files /small/$cycle 8000 &
    files /disk/$cycle 2000 &
    /in/bin/kernel_load anon 500 30
    /in/bin/kernel_load anon 900 15
    wait $short
    huge_pages
    # Most of it goes, some stays for two cycles.
    for n in $(seq 1 8000); do [ $((n % 8)) -eq 0 ] || echo /small/$cycle/$n; done | xargs rm -f
    rm -rf /disk/$cycle
    [ $cycle -le 2 ] || rm -rf /small/$((cycle - 2))
    left=$((start + cycle * cycle_seconds - $(seconds)))
    [ $left -le 0 ] || sleep $left
    /in/bin/prairie survey --summary - >>"$OUT/rows.jsonl"
done
wait $recorder
/in/bin/prairie survey --json >"$OUT/survey.json"
cat /proc/vmstat >"$OUT/vmstat.after"
