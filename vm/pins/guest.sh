# Runs in the guest of vm/tests/pins.sh: a program that pins memory, recorded twice. The first recorder is
# killed, so that its probes are left; the second one's have to go.
set -eu
mkfs=/sbin/mke2fs
[ -x $mkfs ] || mkfs=/usr/sbin/mke2fs
$mkfs -q -t ext4 /dev/vdc
mkdir /disk
mount -t ext4 /dev/vdc /disk
dd if=/dev/zero of=/disk/file bs=1M count=4 2>/dev/null
sync
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled
probes=/sys/kernel/tracing/kprobe_events

/in/bin/prairie record -o /tmp/killed.parquet --pins 2>"$OUT/said" &
tries=0
while ! grep -q prairie/unpin $probes; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || exit 1
    sleep 0.1
done
kill -9 $!
wait $! || true
cp $probes "$OUT/probes.killed"
/in/bin/prairie record -o "$OUT/trace.parquet" --pins -- /in/bin/pinned /disk/file >"$OUT/own" 2>"$OUT/said"
cp $probes "$OUT/probes.after"
