# Runs in the guest: Redis whose keys are read with a skew, alone and then with the daemon.
# Arguments: keys of 4 KiB, reads a second, and the second at which the daemon comes, and the end.
keys=$1 reads=$2 alone=$3 end=$4
. /in/common.sh
set_up
mkdir -p /tmp
(echo 0 >w/cgroup.procs && exec redis-server --save '' --appendonly no --disable-thp no --port 0 \
    --unixsocket /tmp/redis.sock --lua-time-limit 0) >$OUT/redis 2>&1 &
paced=$!
redis() { redis-cli -s /tmp/redis.sock "$@"; }
until [ "$(redis ping 2>/dev/null)" = PONG ]; do sleep 1; done
# Values of hexadecimal digits compress by two; no two are the same.
for thousand in $(seq 0 $((keys / 1000 - 1))); do
    redis eval "for i = 1, 1000 do local value = {}
        for part = 1, 100 do value[part] = redis.sha1hex(KEYS[1] .. i .. part) end
        redis.call('SET', 'key:' .. KEYS[1] * 1000 + i, table.concat(value)) end" 1 $thousand >/dev/null
done
# Key n and all beyond it are read with a share of 100 / n.
redis -r 1000000 -i 0.05 eval "math.randomseed(tonumber(redis.call('TIME')[2]))
    for read = 1, $((reads / 20)) do
        local n = math.floor(100 / (1 - math.random()))
        if n <= $keys then redis.call('GET', 'key:' .. n) end
    end" 0 >/dev/null 2>&1 &
reader=$!
# latency FILE: how long reads took since this was last asked, in microseconds.
latency() {
    redis info latencystats | grep percentiles_usec_get >>$1
    redis config resetstat >/dev/null
}
sleep 2
limits >$OUT/limits-before
sample
start=$(cut -d. -f1 /proc/uptime)
seconds() { echo $(($(cut -d. -f1 /proc/uptime) - start)); }
redis config resetstat >/dev/null
until [ $(seconds) -ge $end ]; do
    if [ $(seconds) -ge $alone ] && [ -z "${agent:-}" ]; then start_daemon /in/offload.toml; fi
    sleep 10
    sample
    [ -n "${agent:-}" ] && latency $OUT/latency-with || latency $OUT/latency-alone
    /in/bin/prairie offload status --json >$OUT/status 2>&1
done
trouble
kill $reader $agent $paced
exit 0
