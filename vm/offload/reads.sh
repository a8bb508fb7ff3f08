# Runs in the guest: reads half of the files of a container twice between marks, has half of its
# page cache reclaimed, and reads the files again. reads.sh generations|classic
lists=$1
mount -t debugfs debug /sys/kernel/debug
generations=/sys/kernel/debug/lru_gen
case $lists in
generations) echo y ;;
classic) echo n ;;
esac >/sys/kernel/mm/lru_gen/enabled
cd /sys/fs/cgroup
echo "+memory" >cgroup.subtree_control
mkdir w /tmp/files
mkfs.ext4 -q /dev/pmem0
mount -t ext4 -o noatime /dev/pmem0 /tmp/files
for file in $(seq 256); do dd if=/dev/urandom of=/tmp/files/$file bs=64k count=1 2>/dev/null; done
sync
echo 3 >/proc/sys/vm/drop_caches

# read_files STEP: each file, or every second one.
read_files() { (echo 0 >w/cgroup.procs && cd /tmp/files && seq 1 $1 256 | xargs cat >/dev/null); }
# of_w: the generations of w, the oldest first.
of_w() { awk '/^memcg/ { ours = $3 == "/w"; id = $2 } ours && NF >= 4 { print id, $1, $NF }' $generations; }
count() { sed -n "s/^$1 //p" w/memory.stat; }

read_files 1
for round in 1 2 3 4; do
    [ $lists = classic ] || of_w | awk 'END { print "+", $1, 0, $2, 1, 1 }' >$generations
    read_files 2
    sleep 1
    read_files 2
    sleep 1
done
idle=$(of_w | awk 'NR <= 2 { pages += $3 } END { print pages + 0 }')
case $lists in
generations) of_w | awk 'NR == 2 { print "-", $1, 0, $2, 0, 2048 }' >$generations ;;
classic) echo 8M >w/memory.reclaim ;;
esac
read_files 2
echo "$idle $(count pgsteal) $(count workingset_refault_file)" >$OUT/pages
