# Whole programs that allocate, for apps.sh and ab.sh to source.
#
# The script that sources this sets `work`, an empty folder, and defines `measured COMMAND…`, which
# runs a command on the heap in question and notes what it took. Of servers only the server is
# measured, not the client.
#
# prepare_programs          makes what the programs read
# present_programs NAME…    those that are installed; a message about each that is not
# program NAME              runs one to its end
# run_rounds ARM ARM        runs each of `present` in both arms, `rounds` times, with `arm` set; the
#                           second arm first, then in turns

declare -A needs=([python]=python3 [cpython]=python3 [gcc]=gcc [rustfmt]=rustfmt [sqlite]=sqlite3
    [memcached]=memcached [threads]=cc [redis]=redis-benchmark [redis-idle]=redis-benchmark
    [nginx]=nginx [postgres]=postgres)
export PATH="$PATH:/usr/sbin:$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)"
modules=/usr/lib/nginx/modules
lua=$modules/ngx_http_lua_module.so

prepare_programs() {
    cat >"$work/trees.py" <<'PY'
import json, random
random.seed(1)
tables = [{str(i): [i, str(i) * 3, {"a": i}] for i in range(3000)} for _ in range(8)]
for _ in range(4):
    text = json.dumps(tables)
    tables = json.loads(text)
    random.shuffle(tables)
words = {}
for i in range(400000):
    words.setdefault("w%d" % random.randrange(100000), []).append(i)
PY
    cat >"$work/objects.py" <<'PY'
import ast, collections, inspect, pickle, random, re, typing
random.seed(3)
source = inspect.getsource(typing) + inspect.getsource(collections) + inspect.getsource(inspect)
trees = [ast.parse(source) for _ in range(6)]
names = [node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)]
for _ in range(3):
    names = pickle.loads(pickle.dumps(names))
    words = re.findall(r"\w+", source)
    counts = collections.Counter(words + names)
    trees[random.randrange(6)] = ast.parse(ast.unparse(trees[0]))
assert counts["self"] > 100
PY
    # A C file of some size: a table of functions.
    awk 'BEGIN { for (i = 0; i < 3000; i++) printf "int f%d(int a, int *p) { int s = 0; for (int i = 0; i < a; i++) s += p[i] * %d + (s >> %d); return s; }\n", i, i, i % 7 + 1 }' >"$work/table.c"
    # A Rust file of some size, to be parsed and formatted: rustc itself defines malloc in its
    # executable (jemalloc's), which no preloaded library replaces.
    awk 'BEGIN { for (i = 0; i < 2500; i++) printf "#[derive(Clone, Debug, Default)]\npub struct S%d { a: Vec<u32>, b: String, c: Option<Box<S%d>> }\nimpl S%d { pub fn f(&self) -> usize { self.a.iter().map(|x| *x as usize * %d).sum::<usize>() + self.b.len() } }\n", i, i ? i - 1 : 0, i, i }' >"$work/crate.rs"
    cc -O2 -o "$work/server" bench/heap/server.c -lpthread
    cat >"$work/load.sql" <<'SQL'
CREATE TABLE t (id INTEGER PRIMARY KEY, k TEXT, v TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
INSERT INTO t SELECT i, 'key' || (i * 7919 % 200003), json_object('a', i, 'b', json_array(i, i * 2)) FROM n;
CREATE INDEX k ON t (k);
SELECT sum(json_extract(v, '$.b[1]')) FROM t WHERE k > 'key5';
SELECT count(*) FROM (SELECT k, group_concat(v) FROM t GROUP BY substr(k, 1, 6));
SQL
    cat >"$work/memcached.py" <<'PY'
import random, socket, sys
random.seed(2)
server = socket.socket(socket.AF_UNIX); server.connect(sys.argv[1])
stream = server.makefile("rwb")
for turn in range(600):
    batch = [(b"k%d" % random.randrange(100000), random.randrange(20, 4000)) for _ in range(100)]
    for key, size in batch:
        stream.write(b"set %s 0 0 %d noreply\r\n%s\r\n" % (key, size, b"x" * size))
    stream.write(b"version\r\n"); stream.flush(); stream.readline()
stream.write(b"shutdown\r\n"); stream.flush()
PY
    cat >"$work/nginx.conf" <<NGINX
daemon off; master_process off; pid $work/nginx.pid; error_log $work/nginx.log;
load_module $modules/ndk_http_module.so; load_module $lua;
events {}
http {
    access_log off; lua_shared_dict sessions 64m; keepalive_requests 1000000;
    client_body_temp_path $work; proxy_temp_path $work; fastcgi_temp_path $work; uwsgi_temp_path $work; scgi_temp_path $work;
    server {
        listen unix:$work/nginx.socket;
        location / {
            content_by_lua_block {
                local number = tonumber(ngx.var.arg_n)
                local parts = {}
                for i = 1, 40 + number % 160 do parts[i] = { id = i, name = ("n"):rep(i % 60) .. number } end
                ngx.shared.sessions:set("k" .. number % 20000, ("v"):rep(number % 2000))
                table.sort(parts, function(a, b) return a.name < b.name end)
                for _, part in ipairs(parts) do ngx.print(part.id, part.name, "\n") end
            }
        }
    }
}
NGINX
    cat >"$work/nginx.py" <<'PY'
import http.client, random, socket, sys
random.seed(4)
class Local(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX); self.sock.connect(sys.argv[1])
client = Local("localhost")
for _ in range(4000):
    client.request("GET", "/?n=%d" % random.randrange(1000000))
    answer = client.getresponse()
    assert answer.status == 200 and len(answer.read()) > 100
PY
}

# Usage: until_there SOCKET; a server of which the socket does not appear in ten seconds has failed.
until_there() {
    local turn
    for turn in $(seq 200); do
        [ ! -S "$1" ] || return 0
        sleep 0.05
    done
    echo "$1 has not appeared" >&2
    return 1
}

program() {
    case $1 in
    python) measured python3 "$work/trees.py" ;;
    # Without the interpreter's own allocator of small objects.
    cpython) PYTHONMALLOC=malloc measured python3 "$work/objects.py" ;;
    gcc) measured gcc -O2 -c -o "$work/table.o" "$work/table.c" ;;
    rustfmt) measured rustfmt --edition 2021 --emit stdout "$work/crate.rs" >/dev/null ;;
    sqlite) measured sqlite3 :memory: <"$work/load.sql" >/dev/null ;;
    threads) measured "$work/server" >/dev/null ;;
    memcached)
        rm -f "$work/socket"
        measured memcached -u "$(id -un)" -s "$work/socket" -A -m 512 -t 2 &
        until_there "$work/socket"
        python3 "$work/memcached.py" "$work/socket"
        wait $!
        ;;
    redis)
        rm -f "$work/socket"
        measured redis-server --port 0 --unixsocket "$work/socket" --dir "$work" --save '' \
            --appendonly no --disable-thp no >/dev/null &
        until_there "$work/socket"
        redis-benchmark -s "$work/socket" -n 200000 -P 16 -r 1000000 -q lpush key:__rand_int__ alpha beta gamma delta epsilon >/dev/null
        redis-benchmark -s "$work/socket" -n 200000 -P 16 -r 1000000 -q lrange key:__rand_int__ 0 4 >/dev/null
        redis-cli -s "$work/socket" shutdown nosave >/dev/null
        wait $!
        ;;
    # A service whose load comes and goes: three times it gets some 100 MB, loses nine tenths of its
    # keys, and waits.
    redis-idle)
        rm -f "$work/socket"
        measured redis-server --port 0 --unixsocket "$work/socket" --dir "$work" --save '' \
            --appendonly no --disable-thp no >/dev/null &
        until_there "$work/socket"
        local turn
        for turn in 1 2 3; do
            redis-benchmark -s "$work/socket" -n 200000 -P 16 -r 1000000 -d 400 -q -t set >/dev/null
            redis-cli -s "$work/socket" eval "for i = 0, 999999 do if i % 10 ~= $turn then
                redis.call('del', string.format('key:%012d', i)) end end" 0 >/dev/null
            sleep 6
        done
        redis-cli -s "$work/socket" shutdown nosave >/dev/null
        wait $!
        ;;
    nginx)
        rm -f "$work/nginx.socket"
        measured nginx -p "$work" -c "$work/nginx.conf" 2>/dev/null &
        until_there "$work/nginx.socket"
        python3 "$work/nginx.py" "$work/nginx.socket"
        kill -QUIT "$(cat "$work/nginx.pid")"
        wait $!
        ;;
    # A server of PostgreSQL refuses to be root's.
    postgres)
        local data="$work/postgres" user=()
        [ "$(id -u)" != 0 ] || user=(runuser -u postgres --)
        rm -rf "$data"
        mkdir -m 777 "$data"
        chmod 711 "$work"
        "${user[@]}" initdb -D "$data/data" -A trust -N >/dev/null
        measured "${user[@]}" postgres -D "$data/data" -k "$data" -c listen_addresses= -c fsync=off \
            -c jit=off >"$data/log" 2>&1 &
        until_there "$data/.s.PGSQL.5432"
        until "${user[@]}" psql -qh "$data" -c 'select 1' postgres >/dev/null 2>&1; do sleep 0.1; done
        "${user[@]}" pgbench -h "$data" -i -s 2 -q postgres >/dev/null 2>&1
        "${user[@]}" pgbench -h "$data" -n -t 1500 -c 2 postgres >/dev/null 2>&1
        "${user[@]}" psql -qh "$data" postgres >/dev/null -c "select count(*) from (select aid % 5000 g,
            array_agg(aid), string_agg(filler, '') from pgbench_accounts group by 1) t"
        "${user[@]}" pg_ctl stop -D "$data/data" -m fast >/dev/null
        wait $!
        ;;
    esac
}

present_programs() {
    local name
    for name in "$@"; do
        if ! command -v "${needs[$name]:-no-such-program}" >/dev/null; then
            echo "$name is left out: ${needs[$name]:-it} is not installed" >&2
        elif [ "$name" = nginx ] && [ ! -e "$lua" ]; then
            echo "nginx is left out: its Lua module is not installed (Debian: libnginx-mod-http-lua)" >&2
        else
            echo "$name"
        fi
    done
}

run_rounds() {
    local order=("$2" "$1") round name arm
    for round in $(seq "$rounds"); do
        for name in "${present[@]}"; do
            for arm in "${order[@]}"; do
                "$work/warm" 768
                program "$name"
            done
        done
        order=("${order[1]}" "${order[0]}")
        echo "round $round of $rounds" >&2
    done
}
