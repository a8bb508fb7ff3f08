//! Whole runs: the same seed gives the same result, migrations end, and what the paper says of
//! huge pages and of hardware migration comes out of small machines too.

use prairie_migrate::address::PageSize;
use prairie_migrate::paper::{Effect, Settings, Stopped};
use prairie_migrate::params::Params;
use prairie_migrate::protocol::table::Caching;
use prairie_migrate::sim::{Method, Migrations, Outcome, Plan, Simulation, Target};
use prairie_migrate::software::Baseline;
use prairie_migrate::workload::Kind;

fn machine(cores: u64) -> Params {
    Params::read(&format!("[cores]\ncount = {cores}\n[llc]\nslices = {cores}\n[mesh]\ncolumns = 2"))
        .unwrap()
}

fn plan(workload: Kind, migrations: Option<Migrations>) -> Plan {
    Plan {
        workload,
        seed: 7,
        heap: PageSize::Base,
        requests: 30,
        warm_up: 10,
        interarrival_ns: None,
        migrations,
    }
}

fn run(params: &Params, plan: &Plan) -> Outcome {
    Simulation::new(params, plan).unwrap().run(&mut |_| true).unwrap()
}

fn by(method: Method, target: Target, per_second: f64) -> Option<Migrations> {
    Some(Migrations { per_second, method, target })
}

const HARDWARE: Method = Method::Hardware(Caching::Cacheable);

#[test]
fn the_same_seed_gives_the_same_result_and_another_does_not() {
    let params = machine(4);
    for workload in Kind::ALL {
        let plan = plan(workload, by(HARDWARE, Target::Buffers, 2e5));
        let outcome = run(&params, &plan);
        assert_eq!(outcome, run(&params, &plan), "{workload:?}");
        assert_ne!(outcome, run(&params, &Plan { seed: 8, ..plan }), "{workload:?}");
    }
}

#[test]
fn every_method_moves_pages_and_all_migrations_end() {
    let params = machine(4);
    let all = Baseline::ALL.map(|baseline| (Method::Software(baseline), Target::Heap));
    let hardware = [Caching::Cacheable, Caching::Noncacheable]
        .map(|caching| (Method::Hardware(caching), Target::Buffers));
    for (method, target) in all.into_iter().chain(hardware) {
        let outcome = run(&params, &plan(Kind::Memcached, by(method, target, 1e5)));
        let stats = outcome.migrations;
        assert!(stats.asked > 5 && stats.moved > 0, "{method:?}: {stats:?}");
        assert_eq!(stats.moved + stats.given_up, stats.asked, "{method:?}");
        if let Method::Hardware(_) = method {
            assert_eq!(stats.given_up, 0, "{method:?}");
            assert_eq!(outcome.counts.lines_copied, 64 * stats.moved);
            assert_eq!(stats.local_ps, 4 * stats.moved * 104_000);
        }
    }
}

#[test]
fn requests_are_the_same_with_and_without_migrations() {
    let params = machine(2);
    let calm = run(&params, &plan(Kind::Nginx, None));
    let none = run(&params, &plan(Kind::Nginx, by(HARDWARE, Target::Buffers, 1e-3)));
    assert_eq!(calm.latencies_ps, none.latencies_ps, "a migration that never comes");
    let moved = run(&params, &plan(Kind::Nginx, by(HARDWARE, Target::Buffers, 1e5)));
    assert_eq!(moved.latencies_ps.len(), calm.latencies_ps.len());
    let effect = Effect::of(&moved, &calm);
    assert!(
        moved.migrations.moved > 0 && effect.bound() > 0.0 && effect.bound() < 0.2,
        "{effect:?}"
    );
}

#[test]
fn huge_pages_spare_memcached_its_walks() {
    let params = machine(2);
    // The warm-up goes round the ring of buffers once, so that their pages are known.
    let base = Plan { requests: 100, warm_up: 256, ..plan(Kind::Memcached, None) };
    let small = run(&params, &base);
    let huge = run(&params, &Plan { heap: PageSize::Huge, ..base });
    let walks = (huge.translations.walks, small.translations.walks);
    assert!(walks.0 * 4 < walks.1, "{walks:?}");
    assert!(Effect::of(&huge, &small).change < 0.0);
}

#[test]
fn memory_is_never_read_faster_than_its_bandwidth() {
    let text = "[cores]\ncount = 4\n[llc]\nslices = 4\n[memory]\nmb_per_second = 1000";
    let outcome = run(&Params::read(text).unwrap(), &plan(Kind::Random, None));
    let lines = outcome.counts.memory_reads + outcome.counts.memory_writes;
    let per_second = lines as f64 * 64.0 / (outcome.span_ps as f64 / 1e12);
    assert!((0.7e9..1.1e9).contains(&per_second), "{per_second}");
}

#[test]
fn requests_that_come_at_random_wait_longer_the_more_come() {
    let params = machine(2);
    let busy = run(&params, &plan(Kind::Memcached, None));
    let service_ns = busy.latencies_ps[0].iter().sum::<u64>() as f64 / 30.0 / 1e3;
    let mean =
        |outcome: &Outcome| outcome.latencies_ps.iter().flatten().sum::<u64>() as f64 / 60.0 / 1e3;
    let at = |load: f64| {
        let interarrival_ns = Some(service_ns / load);
        mean(&run(&params, &Plan { interarrival_ns, ..plan(Kind::Memcached, None) }))
    };
    let (light, heavy) = (at(0.1), at(0.9));
    assert!(light < heavy, "{light} {heavy}");
    assert!((0.7..1.5).contains(&(light / service_ns)), "{light} {service_ns}");
}

#[test]
fn the_paper_runs_alike_on_one_thread_and_on_two() {
    let settings = Settings {
        requests: 4,
        rates: vec![1e5],
        victims: vec![1, 4],
        ..Settings::new(machine(4))
    };
    let one = settings.run(&|_, _| true).unwrap();
    let two = Settings { threads: 2, ..settings.clone() }.run(&|_, _| true).unwrap();
    assert_eq!(one, two);
    // Hardware: a local invalidation and a walk, the same for any number of TLBs. By interrupts,
    // 220 ns more for each.
    let [few, many] = &one.unavailable[..] else { panic!("two rows") };
    assert!((few.hardware_ns - many.hardware_ns).abs() < 60.0, "{few:?} {many:?}");
    assert!(many.hardware_ns < 300.0);
    assert_eq!(many.software_ns[0].1 - few.software_ns[0].1, 3 * 220);
    assert_eq!(settings.run(&|_, _| false).unwrap_err(), Stopped::Interrupted);
}

#[test]
fn a_memory_too_small_for_the_workload_is_refused() {
    let params = Params::read("memory.mib = 512").unwrap();
    let error = Simulation::new(&params, &plan(Kind::Memcached, None)).err().unwrap();
    assert!(error.to_string().starts_with("memory.mib: expected at least "), "{error}");
}
