use lab::exact::*;
use std::path::Path;
fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let dir = Path::new(&dir);
    let names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .filter_map(|e| {
            e.unwrap().file_name().to_str()?.strip_suffix(".buddyinfo").map(String::from)
        })
        .collect();
    let snaps: Vec<_> = names
        .iter()
        .map(|n| {
            let t = |x: &str| std::fs::read_to_string(dir.join(format!("{n}.{x}"))).unwrap();
            let f = std::process::Command::new("zcat")
                .arg(dir.join(format!("{n}.kpageflags.gz")))
                .output()
                .unwrap()
                .stdout;
            snapshot::Snapshot::new(n, [&t("pagetypeinfo"), &t("zoneinfo")], Some(&f)).unwrap()
        })
        .collect();
    let reader = trace::Reader::open(&dir.join("trace.parquet")).unwrap();
    let mut ev = reader.events(trace::Columns::ALL);
    let rec = recording::Recording::read(&mut ev, snaps).unwrap();
    println!(
        "{} acts, outside {}, reclaim {:?}, snapshots {:?}",
        rec.acts.len(),
        rec.outside,
        rec.reclaim,
        rec.snapshots.iter().map(|s| &s.name).collect::<Vec<_>>()
    );
    let op = opening::Opening::of(&rec);
    println!("free blocks {}, silent pageblocks {}", op.free.len(), op.silent_pageblocks.len());
    let f = follow::follow(&rec, &op, rec.acts.len());
    let show = |n: &str, s: &score::Score| {
        println!("{n}: {} of {} {:.4}%", s.right, s.total, s.share() * 100.0);
        for m in &s.misses {
            println!("   {m:x?}");
        }
    };
    show("zone_locked", &f.zone_locked);
    show("fallbacks", &f.fallbacks);
    show("followed", &f.allocations);
    println!("{:?}\n{:?}", f.hidden, f.odd);
    for d in &f.snapshots {
        println!("differences: {} {:?}", d.len(), &d[..d.len().min(12)]);
    }
    for mode in [simulate::Mode::Corrected, simulate::Mode::Free] {
        let s = simulate::simulate(&rec, &op, &f.script, mode);
        show(&format!("{mode:?}"), &s.allocations);
        println!("unknown frees {}", s.unknown_frees);
        for d in &s.snapshots {
            println!("differences: {} {:?}", d.len(), &d[..d.len().min(6)]);
        }
    }
}
