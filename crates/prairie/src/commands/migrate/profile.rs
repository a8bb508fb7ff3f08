//! `prairie migrate profile`: the profile of an access stream, recorded or generated.

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use prairie_migrate::address::{Kind as AccessKind, PageSize};
use prairie_migrate::profile::{Profile, Profiler};
use prairie_migrate::workload::{Kind, Request, of_the_program};
use serde::Serialize;

use super::sim::{WorkloadArg, records};
use crate::commands::seeds::{self, Seeds};
use crate::commands::survey;
use crate::files::Files;
use crate::output::{self, Header, Wanted};
use crate::usage_error::refuse;
use crate::view::migrate_profile as view;

/// Compare a recorded program with a generated stream
///
/// Share of stores, lines and pages touched per request, reuse distances: the properties that
/// determine hit rates of caches and TLBs. Of a generated stream only user-mode accesses are
/// counted, as in a recording under QEMU's user mode.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Access trace, written by crates/migrate/plugin
    #[arg(value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Generated stream
    #[arg(long, value_enum, value_name = "NAME")]
    stream: Option<WorkloadArg>,

    /// Requests in the trace, and requests to generate
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,

    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    seeds: Seeds,

    /// Print JSON instead of the report
    #[arg(long)]
    json: bool,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default().input("FILE", &self.trace)
    }
}

const AFTER_HELP: &str = "\
Examples:
  prairie migrate profile --stream memcached
  prairie migrate profile memcached.2 --requests 12000 --stream memcached

A trace is written by QEMU's user mode:
  cc -O2 -shared -fPIC -o accesses.so crates/migrate/plugin/accesses.c
  qemu-x86_64 -plugin ./accesses.so,to=memcached /usr/bin/memcached -t 1";

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    profiles: Vec<Named<'a>>,
}

/// A profile and the name of its stream.
#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    #[serde(flatten)]
    profile: &'a Profile,
}

fn document(profiles: &[(String, Profile)]) -> Document<'_> {
    Document {
        header: Header::new("prairie-migrate-profile", 2),
        profiles: profiles.iter().map(|(name, profile)| Named { name, profile }).collect(),
    }
}

/// Measures, prints.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.trace.is_none() && args.stream.is_none() {
        refuse!("nothing to profile: expected a trace, or a stream with --stream");
    }
    let mut profiles = Vec::new();
    if let Some(path) = &args.trace {
        let name = || path.display().to_string();
        profiles.push((name(), of_trace(args, path).with_context(name)?));
    }
    if let Some(seeds) = args.seeds.from(args.seed) {
        return repeat(args, &profiles, seeds);
    }
    profiles.extend(of_stream(args, args.seed));
    let report = view::report(&profiles, args.requests, survey::generated_by());
    output::publish(&report, args.json, None, || document(&profiles))?;
    Ok(ExitCode::SUCCESS)
}

/// Generates the stream with each seed; the recorded program is the same.
fn repeat(
    args: &Args,
    recorded: &[(String, Profile)],
    seeds: Range<u64>,
) -> anyhow::Result<ExitCode> {
    if args.stream.is_none() {
        refuse!("--seeds is for generated streams, expected --stream");
    }
    seeds::repeat(seeds, Wanted { json: args.json, html: None }, |seed| {
        let profiles: Vec<_> = recorded.iter().cloned().chain(of_stream(args, seed)).collect();
        Ok(Some(serde_json::to_value(document(&profiles))?))
    })
}

fn of_trace(
    args: &Args,
    path: &std::path::Path,
) -> Result<Profile, prairie_migrate::access_trace::Error> {
    let bytes = std::fs::metadata(path)?.len();
    let mut profiler = Profiler::new(bytes / 8 / args.requests);
    for record in records(path)? {
        let record = record?;
        profiler.access(record.address, record.store, u64::from(record.instructions));
    }
    Ok(profiler.profile())
}

/// The generated stream, if one is requested.
fn of_stream(args: &Args, seed: u64) -> Option<(String, Profile)> {
    let kind = args.stream?.kind();
    Some((format!("{}, generated", kind.name()), generated(args, kind, seed)))
}

/// Of one core.
fn generated(args: &Args, kind: Kind, seed: u64) -> Profile {
    let stream = kind.stream(1, seed, PageSize::Base);
    let mut stream = stream.expect("no command-line name of a stream stands for a recording");
    let mut request = Request::default();
    stream.request(0, &mut request);
    let mut profiler = Profiler::new(of_the_program(&*stream, &request).count() as u64);
    for _ in 0..args.requests {
        for access in of_the_program(&*stream, &request) {
            let store = access.kind() == AccessKind::Store;
            profiler.access(access.address().0, store, access.instructions());
        }
        request.clear();
        stream.request(0, &mut request);
    }
    profiler.profile()
}
