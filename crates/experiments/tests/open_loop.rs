//! The load of `bench/offload-services.sh` against real servers.

use std::process::Command;

/// The server refuses to run as root, so root hands it to Debian's user `postgres`.
#[test]
fn postgres_answers_every_request() {
    let script = r#"
        set -eu
        bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
        [ -x "$bin/initdb" ] || { echo "initdb is not installed"; exit 77; }
        as=
        if [ "$(id -u)" = 0 ]; then
            id postgres >/dev/null 2>&1 || { echo "there is no user postgres"; exit 77; }
            as="setpriv --reuid=postgres --regid=postgres --clear-groups"
        fi
        dir=$(mktemp -d)
        trap '$as "$bin/pg_ctl" -D "$dir/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT
        mkdir "$dir/data"
        [ -z "$as" ] || chown -R postgres "$dir"
        cd "$dir"
        $as "$bin/initdb" -D "$dir/data" --no-sync -A trust -U postgres -E SQL_ASCII --no-locale >&2
        $as "$bin/pg_ctl" -D "$dir/data" -w -l "$dir/log" -o "-F -k $dir -c listen_addresses=" start >&2
        "$1" postgres "$dir/.s.PGSQL.5432" 200 16000 100 0.99 200 1 0.5 1
    "#;
    let program = env!("CARGO_BIN_EXE_open_loop");
    let output = Command::new("sh").args(["-c", script, "sh", program]).output().expect("sh runs");
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(77) {
        prairie_testing::skip_without(&format!("PostgreSQL ({})", said.trim()));
        return;
    }
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.starts_with("ready\n"), "{said}");
    let requests = said.lines().filter(|line| line.starts_with("0 ")).count();
    assert!((150..250).contains(&requests), "{requests} requests in a second");
}
