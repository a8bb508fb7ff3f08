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
    let f = compare(&rec);
    let show = |n: &str, s: &score::Score| {
        println!("{n}: {} of {} {:.4}%", s.right, s.total, s.share() * 100.0);
        for m in &s.misses {
            println!("   {m:x?}");
        }
    };
    show("zone_locked", &f.zone_locked);
    show("fallbacks", &f.fallbacks);
    show("followed", &f.followed);
    show("corrected", &f.corrected);
    show("free", &f.free_running);
    println!("{:?} settled {}\n{:?}", f.hidden, f.settled_pageblocks, f.odd);
    for d in &f.snapshots {
        println!(
            "{} followed {:?}\n   free {:?}",
            d.name,
            &d.followed[..d.followed.len().min(12)],
            &d.free_running[..d.free_running.len().min(12)]
        );
    }
}
