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
now_ms() { awk '{ print int($1 * 1000) }' /proc/uptime; }
# answers FILE: what the daemon says, and how long that took in milliseconds: with the start of the
# program that asks, and a start by itself.
answers() {
    before=$(now_ms)
    /in/bin/prairie --version >/dev/null
    started=$(now_ms)
    /in/bin/prairie offload status --json >$1 2>&1
    echo $(($(now_ms) - started)) $((started - before)) >>$OUT/answers
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
