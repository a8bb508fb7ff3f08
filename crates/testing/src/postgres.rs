//! PostgreSQL in tests.

use std::path::Path;
use std::process::{Command, Output};

use crate::skip_without;

/// Finds `$bin` and makes `$dir` for a cluster. The server refuses to run as root, so root hands it to
/// Debian's user `postgres`: `$as` runs a command as the server's user.
const PREPARE: &str = r#"
    set -eu
    bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
    [ -x "$bin/initdb" ] && [ -x "$bin/pgbench" ] || { echo "initdb and pgbench are not installed"; exit 77; }
    as=
    if [ "$(id -u)" = 0 ]; then
        id postgres >/dev/null 2>&1 || { echo "there is no user postgres"; exit 77; }
        as="setpriv --reuid=postgres --regid=postgres --clear-groups"
    fi
    dir=$(mktemp -d)
    trap '$as "$bin/pg_ctl" -D "$dir/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT
    chmod 755 "$dir"
    mkdir "$dir/data"
    [ -z "$as" ] || chown -R postgres "$dir"
    cd "$dir"
"#;

/// Runs a shell script that makes a cluster in `$dir/data` with the programs in `$bin`, as the user of
/// `$as`, and gets a file as `$1`. The cluster is stopped and removed at the end. Counts a skip and
/// returns `None` where PostgreSQL is not installed.
///
/// # Panics
/// If there is no shell.
#[track_caller]
pub fn postgres(script: &str, file: &Path) -> Option<Output> {
    let script = [PREPARE, script].concat();
    let output = Command::new("sh").args(["-c", &script, "sh"]).arg(file).output();
    let output = output.expect("sh runs");
    if output.status.code() == Some(77) {
        let said = String::from_utf8_lossy(&output.stdout);
        skip_without(&format!("PostgreSQL ({})", said.trim()));
        return None;
    }
    Some(output)
}
