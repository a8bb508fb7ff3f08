# Runs in the guest, in real time: swap that is added late, and answers slowly. Arguments: sizes of
# hot, warm and cold memory, in MiB.
SWAP=disk SWAP_LATE=yes
. /in/common.sh
set_up
start_workload "$@" 1000
sleep 2
limits >$OUT/limits-before
start_daemon /in/fast.toml
start=$(cut -d. -f1 /proc/uptime)
seconds() { echo $(($(cut -d. -f1 /proc/uptime) - start)); }
# answers FILE: what the daemon says, and how long it took to, in milliseconds.
answers() {
    before=$(awk '{ print int($1 * 1000) }' /proc/uptime)
    /in/bin/prairie offload status --json >$1 2>&1
    echo $(($(awk '{ print int($1 * 1000) }' /proc/uptime) - before)) >>$OUT/answers
}
sleep 20
answers $OUT/status-without
sample
swapon /dev/vdc
while [ $(seconds) -lt 180 ]; do
    sleep 10
    sample
    answers $OUT/status
done
# It ends at once, though a request is under way.
kill -15 $agent
sleep 5
kill -0 $agent 2>/dev/null && echo yes >$OUT/not-ended
limits >$OUT/limits-after
trouble
kill $paced
exit 0
