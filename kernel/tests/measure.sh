# Runs in the guest: the mixed load, then what memory can still give. Prints `name value` lines into
# $OUT/values. Usage: measure.sh SECONDS
seconds=$1
load=/in/load
node=/sys/kernel/mm/contiguitas/node0
values=$OUT/values
ulimit -n 100000
vmstat() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }
first() { if [ -d $node ]; then cat $node/border_pfn; else echo 0; fi; }
pool() { cat "/sys/kernel/mm/hugepages/hugepages-$1kB/nr_hugepages"; }

mke2fs -F /dev/vdc >/dev/null 2>&1
mkdir -p /disk
mount -t ext4 /dev/vdc /disk
dd if=/dev/zero of=/disk/file bs=1M count=2000 2>/dev/null
echo "border_start $(first)" >"$values"
[ -d $node ] && "$load" scan "$seconds" >>"$values" &
(while :; do cat /disk/file >/dev/null; done) &
reader=$!
(while :; do for i in 1 2 3 4 5 6 7 8; do /bin/busybox true & done; wait; done) 2>/dev/null &
forks=$!
"$load" tables 24 $((seconds + 600)) >/dev/null &
"$load" pipes 200 6 12 0 $((seconds + 600)) >>"$values" &
"$load" names 60000 >/dev/null &
"$load" anonymous 700 "$seconds" >>"$values"
kill $reader $forks
sleep 2
echo "border_end $(first)" >>"$values"
for name in allocstall_dma32 allocstall_movable compact_stall pgmigrate_success oom_kill pgsteal_kswapd; do
    echo "$name $(vmstat $name)" >>"$values"
done
awk '$1 == "some" { sub("total=", "", $5); print "psi_some_us", $5 }' /proc/pressure/memory >>"$values"
[ -d $node ] && cat $node/counters >>"$values"

# With the load's leftovers in place. The largest first.
echo 2 >/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages
echo "huge_1g $(pool 1048576)" >>"$values"
echo 0 >/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages
sync
echo 3 >/proc/sys/vm/drop_caches
"$load" blocks 0 | sed 's/^/all_/' >>"$values"
[ -d $node ] && "$load" blocks "$(first)" | sed 's/^/above_/' >>"$values"
echo 2000 >/proc/sys/vm/nr_hugepages
echo "huge_2m $(pool 2048)" >>"$values"
