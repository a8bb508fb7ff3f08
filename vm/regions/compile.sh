# Runs in the guest: a build of Linux while page cache fills memory, under one agent, then what is left.
# Arguments: AGENT ROUND SECONDS. A persistent memory has the sources, configured (bench/kernel-tree.sh).
agent=$1 round=$2 lasts=$3
. /in/common.sh
. /in/agent.sh
mkdir /tree
# Which of them has the sources, only its file system tells.
for each in /dev/pmem*; do
    mount -t ext4 $each /tree 2>/dev/null || empty=$each
done
# Make finds them where it found them when it built its own programs.
sources=$(cat /tree/host/folder) || { complain "no sources"; exit 0; }
mkdir -p $sources
mount -o bind /tree $sources
ln -s /tree/host/usr/include /usr/include
for each in /tree/host/usr/lib/gcc/*/*/include; do ln -s $each ${each#/tree/host}; done
export PATH=/usr/bin:$PATH TMPDIR=/disk/tmp
make_disks
mkdir /disk/tmp
start_agent $agent
psi_before=$(psi)
dd if=/dev/zero of=/disk/first bs=1M count=3300 2>/dev/null
sync
later 3
start=$(seconds)
cd $sources
timeout $lasts make -j8 mm/ kernel/ fs/ lib/ >$OUT/make 2>&1 &
sample_for $lasts
cost=$(agent_cost)
grep -q Terminated $OUT/make || complain "the build ended: $(tail -n 1 $OUT/make)"
objects=$(find mm kernel fs lib -name "*.o" | wc -l)
until_true 30 eval '! pidof cc1 >/dev/null' || complain "the build does not end"
cd /
echo "agent=$agent $(tail -n 1 $OUT/samples) $(judge $agent) objects=$objects migrated=$(count pgmigrate_success) $cost $(region)" >$OUT/result
trouble
exit 0
