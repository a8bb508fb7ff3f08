# Runs in the guest of kernel/holes: all but 100 MiB of the movable zone has every other page free, and
# one request asks for 300 pages of 2 MiB.
movable=$(awk '/^Node/ { movable = $4 == "Movable" } movable && $1 == "managed" { print int($2 / 256) }' /proc/zoneinfo)
vmstat() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }
/in/load holes $((movable - 100)) 600 >/tmp/holes &
until grep -q holes_mib /tmp/holes; do sleep 1; done
migrated=$(vmstat pgmigrate_success) failed=$(vmstat compact_fail) reclaims=$(vmstat allocstall_movable)
echo 300 >/proc/sys/vm/nr_hugepages
echo "pages=$(cat /proc/sys/vm/nr_hugepages) migrated=$(($(vmstat pgmigrate_success) - migrated))" \
    "failed=$(($(vmstat compact_fail) - failed)) reclaims=$(($(vmstat allocstall_movable) - reclaims))" >$OUT/result
