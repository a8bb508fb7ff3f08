//! A simulated application (`prairie-tmo`) as a real process: the same pages, touched at the same
//! times.
//!
//! ```text
//! application CGROUP FILE APPLICATION MIB SECONDS SEED
//! ```
//!
//! Enters the folder `application` of CGROUP and fills MIB of memory. Pages of files are pages of
//! FILE, a file or a block device. Anonymous pages compress by the application's ratio. Then every
//! page is touched as the simulated one is, to a quarter of a second: a file page is read, an
//! anonymous page written, so that no copy of it in swap stays valid.
//!
//! APPLICATION is a name such as `Feed`, or `server`: the Web server of Figure 11, whose limit is
//! MIB. It loads anonymous memory and sets its rate as the simulated server does. The limit is the
//! server's own; no file of the cgroup is written.
//!
//! Every 30 s a line is printed, in sums since the start: seconds, touches, waits for anonymous
//! pages and their microseconds, waits for file pages and theirs, and the rate of requests and the
//! filled pages. A wait is a touch of more than 5 µs. An application's touches of pages that are
//! touched every 30 s or more often are not timed: such pages rarely leave memory, and reading the
//! clock takes most of the run's time.

mod memory;
mod wheel;

use std::io::{self, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, process};

use anyhow::{Context, Result, bail};
use memory::{Contents, Page};
use prairie_host::cgroup::memory_stat;
use prairie_host::texts::fields::sizes_only;
use prairie_model::random::Random;
use prairie_tmo::access::Rhythm;
use prairie_tmo::app::{App, WEB};
use prairie_tmo::experiment::web::{LOOK_S, Requests, Setting};
use wheel::{TICK, Wheel};

/// A touch that takes longer has waited for the page: a fault without a wait takes 2 µs.
const WAIT: Duration = Duration::from_micros(5);

/// Waits for pages of a kind.
#[derive(Clone, Copy, Default)]
struct Waits {
    count: u64,
    us: f64,
}

/// Cells up to this length are of pages that are not timed in an application.
const UNTIMED_S: f32 = 30.0;

/// Pages, and when each is touched.
struct Process {
    wheel: Wheel<(Rhythm, Page)>,
    contents: Contents,
    /// Cells up to this length are of pages that are not timed.
    untimed_s: f32,
    touches: u64,
    /// For anonymous pages and for file pages.
    waits: [Waits; 2],
}

impl Process {
    fn new(file: &Path, pages: Vec<(Rhythm, bool)>, compression: f64) -> Result<Process> {
        let (rhythms, kinds): (Vec<_>, Vec<_>) = pages.into_iter().unzip();
        let wheel = Wheel::new(rhythms.into_iter().zip(memory::map(file, &kinds)?));
        let contents = Contents::new(compression);
        let (untimed_s, waits) = (UNTIMED_S, Default::default());
        Ok(Process { wheel, contents, untimed_s, touches: 0, waits })
    }

    /// Fills pages at the end of a tick, and from then on touches them.
    fn fill(&mut self, pages: std::ops::Range<usize>, tick: u32) {
        for page in pages {
            self.contents.fill(&self.wheel.value(page as u32).1);
            self.plan(page as u32, tick);
        }
    }

    /// Plans the next touch of a page after the end of a tick.
    fn plan(&mut self, page: u32, tick: u32) {
        let (rhythm, _) = self.wheel.value(page);
        let tick_s = TICK.as_secs_f64();
        let next_s = rhythm.next_after(page, f64::from(tick) * tick_s);
        if next_s.is_finite() {
            self.wheel.put(page, ((next_s / tick_s).ceil() as u32).max(tick + 1));
        }
    }

    /// Touches what is due in a tick.
    fn touch(&mut self, tick: u32) {
        let mut due = self.wheel.take(tick);
        while let Some(page) = due {
            due = self.wheel.after(page);
            if !self.wheel.is_due(page, tick) {
                self.wheel.put_back(page);
                continue;
            }
            let (rhythm, touched) = self.wheel.value(page);
            if rhythm.cell_s <= self.untimed_s {
                touched.touch();
            } else {
                let before = Instant::now();
                touched.touch();
                let took = before.elapsed();
                if took > WAIT {
                    let waits = &mut self.waits[usize::from(touched.is_file)];
                    waits.count += 1;
                    waits.us += took.as_secs_f64() * 1e6;
                }
            }
            self.touches += 1;
            self.plan(page, tick);
        }
    }

    fn waited_us(&self) -> f64 {
        self.waits.iter().map(|waits| waits.us).sum()
    }
}

/// The server's requests, and how many of its pages have been filled.
struct Server {
    requests: Requests,
    files: usize,
    filled: usize,
    waited_us: f64,
}

impl Server {
    /// What the server does every [`LOOK_S`] seconds.
    fn look(&mut self, cgroup: &Path, process: &mut Process, tick: u32) -> Result<()> {
        let unloaded = process.wheel.len() - self.files;
        let wanted = self.files + (unloaded as f64 * self.requests.load()) as usize;
        process.fill(self.filled..wanted, tick);
        self.filled = wanted;
        let waited_us = process.waited_us();
        let waiting = (waited_us - self.waited_us) / (LOOK_S * 1e6);
        self.waited_us = waited_us;
        self.requests.throttle(host_bytes(cgroup)?, waiting);
        Ok(())
    }
}

/// Memory that the cgroup takes of the machine: what is resident, and the pool of zswap.
fn host_bytes(cgroup: &Path) -> Result<u64> {
    let stat = memory_stat::parse("memory.stat", &fs::read_to_string(cgroup.join("memory.stat"))?)?;
    let meminfo = fs::read_to_string("/proc/meminfo")?;
    let pool = sizes_only("meminfo", &meminfo, |name| name == "Zswap")?;
    Ok(stat.anon + stat.file + pool.get("Zswap").unwrap_or(&0))
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [cgroup, file, name, mib, seconds, seed] = &words[..] else {
        bail!("expected CGROUP FILE APPLICATION MIB SECONDS SEED");
    };
    let (cgroup, file) = (Path::new(cgroup), Path::new(file));
    let (bytes, seed) = (mib.parse::<u64>()? << 20, seed.parse::<u64>()?);
    let ticks = seconds.parse::<u32>()? * wheel::TICKS_A_SECOND;
    // What the program keeps of each page is charged to the cgroup from which it comes.
    let (mut process, mut server) = match name.as_str() {
        "server" => {
            let setting = Setting { limit_bytes: bytes, real_pages: 1, ..Setting::default() };
            let [files, unloaded] = setting.pages(seed);
            let loaded = files.len();
            let kind = |file: bool| move |rhythm: Rhythm| (rhythm, file);
            let files = files.into_iter().map(kind(true));
            let pages = files.chain(unloaded.into_iter().map(kind(false))).collect();
            let requests = Requests::new(bytes);
            let server = Server { requests, files: loaded, filled: loaded, waited_us: 0.0 };
            let process = Process::new(file, pages, WEB.compression)?;
            // The server's rate depends on all its waits.
            (Process { untimed_s: 0.0, ..process }, Some(server))
        }
        name => {
            let app = App::named(name).with_context(|| format!("{name}: no such application"))?;
            let pages = app.pages((bytes / 4096) as usize, &mut Random::new(seed));
            (Process::new(file, pages, app.compression)?, None)
        }
    };
    fs::write(cgroup.join("application/cgroup.procs"), process::id().to_string())?;
    let first = server.as_ref().map_or(process.wheel.len(), |server| server.filled);
    process.fill(0..first, 0);
    println!("s\ttouches\tanon\tanon_us\tfile\tfile_us\trate\tfilled");
    io::stdout().flush()?;
    let started = Instant::now();
    for tick in 1..=ticks {
        let due = started + TICK * tick;
        sleep(due.saturating_duration_since(Instant::now()));
        process.touch(tick);
        if tick % (LOOK_S as u32 * wheel::TICKS_A_SECOND) == 0 {
            if let Some(server) = &mut server {
                server.look(cgroup, &mut process, tick)?;
            }
            report(&process, server.as_ref(), tick)?;
        }
    }
    Ok(())
}

fn report(process: &Process, server: Option<&Server>, tick: u32) -> io::Result<()> {
    let [anon, file] = process.waits;
    let (rate, filled) = match server {
        Some(server) => (server.requests.rate, server.filled),
        None => (1.0, process.wheel.len()),
    };
    let (second, touches) = (tick / wheel::TICKS_A_SECOND, process.touches);
    println!(
        "{second}\t{touches}\t{}\t{:.0}\t{}\t{:.0}\t{rate:.4}\t{filled}",
        anon.count, anon.us, file.count, file.us
    );
    io::stdout().flush()
}
