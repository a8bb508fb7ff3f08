# Runs in the guest: a service in the container w, asked by an open loop, and a sidecar in s.
# service.sh SERVICE SEED NAME=VALUE...; bench/offload-services.sh explains the services.
service=$1 seed=$2
shift 2
AGENT=none CONFIG=/in/service.toml LOG=--verbose SECONDS=900 SHIFT=780 RATE=200 EVERY=50
SWAP_DEVICE=/dev/pmem0 COMPRESSOR=lz4
for setting in "$@"; do eval "$setting"; done
. /in/common.sh
. /in/agents.sh

case $AGENT in
*-classic)
    echo n >/sys/kernel/mm/lru_gen/enabled
    AGENT=${AGENT%-classic}
    ;;
prairie-*-*us)
    microseconds=${AGENT##*-} backend=${AGENT#prairie-}
    mount -t configfs none /sys/kernel/config
    SWAP_DEVICE=$(late_device late ${microseconds%us} 2048 1)
    sed "s/^cgroups = ..w..$/&\nbackend = \"${backend%-*}\"/" $CONFIG >/tmp/service.toml
    AGENT=prairie CONFIG=/tmp/service.toml
    ;;
esac
set_up
mkdir s
case $AGENT in
*-unweighted) AGENT=${AGENT%-unweighted} ;;
# As the daemon's unit for systemd.
*) echo 1 >agent/cpu.weight ;;
esac

# disk FOLDER: mounts an empty file system on the second persistent memory.
disk() {
    mkdir -p $1
    mkfs.ext4 -q -N 100000 /dev/pmem1 >$OUT/service 2>&1
    mount -t ext4 -o noatime /dev/pmem1 $1
}

socket=/tmp/socket ready="[ -S /tmp/socket ]"
case $service in
redis*)
    protocol=redis
    (echo 0 >w/cgroup.procs && exec redis-server --port 0 --unixsocket /tmp/socket --save '' --appendonly no) >$OUT/service 2>&1 &
    ;;
nginx*)
    protocol=http=/tmp/files
    mkdir -p /etc /var/lib/nginx /var/log/nginx
    echo root:x:0:0::/:/bin/sh >/etc/passwd
    echo root:x:0: >/etc/group
    disk /tmp/files
    (echo 0 >w/cgroup.procs && exec nginx -c /in/nginx.conf) >>$OUT/service 2>&1 &
    ;;
postgres*)
    # A query takes four times as long as a request to Redis, so the CPU is as busy as with it.
    protocol=postgres socket=/tmp/postgres/.s.PGSQL.5432 RATE=50
    ready="grep -qs ready /tmp/postgres/data/postmaster.pid"
    bin=$(echo /usr/lib/postgresql/*/bin)
    version=${bin%/bin} version=${version##*/}
    mkdir -p /etc /usr/share/postgresql
    ln -s /in/share-postgresql /usr/share/postgresql/$version
    # The server refuses to run as root.
    printf '%s\n' root:x:0:0::/:/bin/sh postgres:x:1:1::/tmp/postgres:/bin/sh >/etc/passwd
    printf '%s\n' root:x:0: postgres:x:1: >/etc/group
    chmod 1777 /dev/shm
    disk /tmp/postgres
    chown postgres:postgres /tmp/postgres
    su postgres -c "$bin/initdb -D /tmp/postgres/data -A trust -E SQL_ASCII --no-locale" >>$OUT/service 2>&1
    cp /in/postgresql.conf /tmp/postgres/data
    (echo 0 >w/cgroup.procs && exec su postgres -c "exec $bin/postgres -D /tmp/postgres/data") >>$OUT/service 2>&1 &
    ;;
esac
server=$!
until $ready; do
    kill -0 $server || exit 1
    sleep 1
done
case $service in
*-zipf) requested=80000 SHIFT=$SECONDS ;;
# 512 MB, twice the buffers.
postgres) requested=32000 ;;
*) requested=5000 ;;
esac
/in/bin/open_loop $protocol $socket 80000 16000 $requested 0.99 $RATE $SECONDS $SHIFT $seed >$OUT/times 2>$OUT/client &
load=$!
while [ ! -s $OUT/times ]; do sleep 1; done
(echo 0 >s/cgroup.procs && exec /in/bin/paced 8 8 48 $SECONDS) >$OUT/paced 2>&1 &
sample
read begun rest </proc/uptime
begun=${begun%.*}
start_agent
# Samples shall not delay requests.
renice -n 19 -p $$ >/dev/null
at=$EVERY
while kill -0 $load 2>/dev/null && [ $at -lt $SECONDS ]; do
    read now rest </proc/uptime
    sleep $((begun + at - ${now%.*}))
    sample
    echo "at=$at sidecar=$(cat s/memory.current)" >>$OUT/sidecar
    at=$((at + EVERY))
done
[ "$AGENT" != prairie ] || /in/bin/prairie offload status --json >$OUT/status 2>&1
wait $load
sample
gzip $OUT/times
trouble
exit 0
