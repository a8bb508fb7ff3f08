//! The program's half of each application's stream against recordings of the real programs under
//! QEMU's user mode (`plugin/accesses.c`): means of a request, after the start.

use prairie_migrate::address::{Kind as AccessKind, PageSize};
use prairie_migrate::profile::{Profile, Profiler};
use prairie_migrate::workload::{Kind, Request, of_the_program};

const REQUESTS: u64 = 400;

/// The profile of a recording's request.
struct Recorded {
    accesses: f64,
    instructions: f64,
    stores: f64,
    lines: f64,
    pages: f64,
}

fn profile(kind: Kind, per_request: f64) -> Profile {
    let mut stream = kind.stream(1, 1, PageSize::Base).unwrap();
    let mut profiler = Profiler::new(per_request as u64);
    let mut request = Request::default();
    for _ in 0..REQUESTS {
        request.clear();
        stream.request(0, &mut request);
        for access in of_the_program(&*stream, &request) {
            let store = access.kind() == AccessKind::Store;
            profiler.access(access.address().0, store, access.instructions());
        }
    }
    profiler.profile()
}

fn compare(kind: Kind, recorded: &Recorded) {
    let found = profile(kind, recorded.accesses);
    let each = |count: u64| count as f64 / REQUESTS as f64;
    for (what, found, recorded) in [
        ("accesses", each(found.accesses), recorded.accesses),
        ("instructions", each(found.instructions), recorded.instructions),
        ("stores", found.stores, recorded.stores),
        ("lines", found.lines_per_request, recorded.lines),
        ("pages", found.pages_per_request, recorded.pages),
    ] {
        let ratio = found / recorded;
        assert!((0.75..1.25).contains(&ratio), "{kind:?} {what}: {found}, recorded {recorded}");
    }
}

#[test]
fn memcached_is_as_recorded() {
    let recorded = Recorded {
        accesses: 1500.0,
        instructions: 3424.0,
        stores: 0.428,
        lines: 120.5,
        pages: 31.6,
    };
    compare(Kind::Memcached, &recorded);
}

#[test]
fn nginx_is_as_recorded() {
    let recorded = Recorded {
        accesses: 7916.0,
        instructions: 22_460.0,
        stores: 0.328,
        lines: 362.8,
        pages: 66.0,
    };
    compare(Kind::Nginx, &recorded);
}
