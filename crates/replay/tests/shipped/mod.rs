//! The recordings in `data/`, with their snapshots.

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use prairie_frames::KernelVersion;
use prairie_replay::exact::recording::Recording;
use prairie_replay::exact::snapshot::Snapshot;
use prairie_trace::{Columns, Reader};

/// The snapshots of most recordings.
pub const USUAL: [&str; 3] = ["early", "middle", "end"];

/// A recording with the named snapshots.
pub fn recording(name: &str, snapshots: &[&str]) -> Recording {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../data").join(name);
    let snapshot = |name: &&str| {
        let text = |file| fs::read_to_string(folder.join(format!("{name}.{file}"))).unwrap();
        let flags = File::open(folder.join(format!("{name}.kpageflags.gz"))).ok().map(|file| {
            let mut bytes = Vec::new();
            GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
            bytes
        });
        let texts = [&*text("pagetypeinfo"), &*text("zoneinfo")];
        Snapshot::new(name, texts, flags.as_deref()).unwrap()
    };
    let snapshots = snapshots.iter().map(snapshot).collect();
    let reader = Reader::open(&folder.join("trace.parquet")).unwrap();
    let release = fs::read_to_string(folder.join("release")).unwrap();
    let version = KernelVersion::of_kernel(&release).unwrap();
    Recording::read(&mut reader.events(Columns::ALL), snapshots, version).unwrap()
}
