# Runs in the guest: Redis in the container w, asked for keys of which some are far more popular
# than others. Arguments: KEYS VALUE_BYTES RATE SECONDS, then settings NAME=VALUE.
keys=$1 bytes=$2 rate=$3 seconds=$4
shift 4
AGENT=prairie CONFIG=/in/offload.toml LOG=--verbose EVERY=20 HUGE=never
for setting in "$@"; do eval "$setting"; done
. /in/common.sh
. /in/agents.sh
set_up
(echo 0 >w/cgroup.procs && exec redis-server --port 0 --unixsocket /tmp/redis.sock --save '' --appendonly no) >$OUT/redis 2>&1 &
redis=$!
while [ ! -S /tmp/redis.sock ]; do sleep 1; done
/in/bin/skewed /tmp/redis.sock $keys $bytes $rate $seconds >$OUT/paced 2>$OUT/skewed &
load=$!
while [ ! -s $OUT/paced ]; do sleep 1; done
sample
start_agent $redis
# Samples shall not delay requests.
renice -n 19 -p $$ >/dev/null
while kill -0 $load 2>/dev/null; do
    sleep $EVERY
    kill -0 $redis || break
    sample
    damon_statistics &
    case $AGENT in
    prairie*) /in/bin/prairie offload status --json >$OUT/status 2>&1 ;;
    esac
done
kill $redis
trouble
[ ! -s $OUT/skewed ]
