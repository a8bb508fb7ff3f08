//! The load of `bench/offload-services.sh` against real servers.

#[test]
fn postgres_answers_every_request() {
    let script = r#"
        $as "$bin/initdb" -D "$dir/data" --no-sync -A trust -U postgres -E SQL_ASCII --no-locale >&2
        $as "$bin/pg_ctl" -D "$dir/data" -w -l "$dir/log" -o "-F -k $dir -c listen_addresses=" start >&2
        "$1" postgres "$dir/.s.PGSQL.5432" 200 16000 100 0.99 200 1 0.5 1
    "#;
    let program = env!("CARGO_BIN_EXE_open_loop");
    let Some(output) = prairie_testing::postgres(script, program.as_ref()) else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.starts_with("ready\n"), "{said}");
    let requests = said.lines().filter(|line| line.starts_with("0 ")).count();
    assert!((150..250).contains(&requests), "{requests} requests in a second");
}
