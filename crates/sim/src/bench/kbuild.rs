//! kbuild: the time to unpack a kernel and to build it.

use serde::Serialize;

use super::{Bench, DAEMONS};

/// Compiler runs of the build.
const SOURCES: u64 = 700;

/// The results.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Kbuild {
    /// Simulated seconds to unpack.
    pub extract_s: f64,
    /// Simulated seconds to build.
    pub build_s: f64,
}

/// Runs it. The time is checked every half second.
pub(super) fn run(bench: &mut Bench<'_>) -> Kbuild {
    const STEP: std::time::Duration = std::time::Duration::from_millis(500);
    let sources = if bench.preset == super::Preset::Small { 20 } else { SOURCES };
    let mut until = |kinds: &[(&str, u32)], kind: &str, count: u64| {
        let (start, ended) = (bench.machine.now_ns(), bench.machine.ended(kind));
        bench.run(kind, kinds, &[], 0);
        // Ten hours is more than any system may need.
        for _ in 0..72_000 {
            if bench.machine.ended(kind) >= ended + count || bench.is_cancelled() {
                break;
            }
            bench.wait(STEP);
        }
        (bench.machine.now_ns() - start) as f64 / 1e9
    };
    let extract_s = match sources {
        20 => 0.0,
        _ => until(&[("daemon", DAEMONS), ("tar", 1)], "tar", 1),
    };
    let build_s = until(&[("daemon", DAEMONS), ("cc1", 4), ("make", 2)], "cc1", sources);
    Kbuild { extract_s, build_s }
}
