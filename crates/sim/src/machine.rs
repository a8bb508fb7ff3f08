//! A machine that lives: processes, page cache, kernel objects, reclaim, under one system.
//!
//! Replays place recorded allocations; they cannot show what happens when memory runs short,
//! because then the system itself decides what is freed and moved. This machine can. It is a
//! discrete-event simulation: actors ([`clock`]) run in slices on a few CPUs, and what they do to
//! memory happens at a slice's beginning, while its price ([`costs`]) is paid in simulated time.
//!
//! ```text
//! scenario ──► Machine ──► clock: whose slice is next
//!                 │
//!    processes, files, slabs, kernel objects      who wants memory
//!                 │ allocate.rs: fast path, slow path
//!    Memory: frame table + placement + pages      who has it
//!                 │
//!    kswapd, direct reclaim, linear reclaim,      how it comes back
//!    shrinkers, writeback, swap, OOM killer
//! ```
//!
//! One seed, one result: nothing depends on a clock, a thread or an address of the host.

mod allocate;
pub mod clock;
mod compact;
mod compactable;
mod contig;
pub mod costs;
pub mod counters;
pub mod disk;
mod fault;
mod files;
mod hugetlb;
mod kernel_objects;
mod khugepaged;
mod kswapd;
mod kswapd_2_6;
mod linear;
pub mod lru;
pub mod memory;
mod memory_blocks;
mod obstacles;
mod offline;
mod oom;
pub mod page;
mod phases;
mod process;
pub mod reclaim;
pub mod recorded;
pub mod scenario;
mod shrinker;
mod slab;
mod stack;
mod upkeep;
mod validate;
mod workingset;
mod writeback;

use prairie_frames::kstack::Places;
use prairie_frames::layout::LayoutError;
use prairie_frames::{Order, ZoneKind};

use clock::{Actor, Clock, Next};
use counters::Counters;
use disk::{Disk, Swap};
use files::Files;
pub use hugetlb::{Attempt, Effort, PoolChange};
use kswapd::Kswapd;
pub use linear::worst_case_share;
use lru::Lru;
use memory::Memory;
pub use obstacles::Obstacles;
pub use oom::OomKill;
use prairie_model::allocator::{Allocator, Site, World};
use prairie_model::random::Random;
use prairie_model::regions_daemon::RegionsDaemon;
use prairie_model::zones::{self, Architecture, Marks, Shape};
use process::Process;
use scenario::Scenario;
use slab::Slabs;
use writeback::Writeback;

/// A machine in the middle of its life.
pub struct Machine {
    scenario: Scenario,
    system: Allocator,
    memory: Memory,
    lru: Lru,
    clock: Clock,
    disk: Disk,
    swap: Swap,
    processes: Vec<Process>,
    free_processes: Vec<u32>,
    /// Processes wanted of each kind, and those that run.
    population: Vec<Population>,
    files: Files,
    slabs: Slabs,
    stack_places: Places,
    kernel_objects: Vec<kernel_objects::Stream>,
    kswapd: Vec<Kswapd>,
    compaction: compact::Compaction,
    upkeep: upkeep::Upkeep,
    /// The regions daemon, where memory blocks change zones.
    regions_daemon: Option<Box<RegionsDaemon>>,
    /// The cursor of khugepaged: a process and a region of it.
    khugepaged_at: (u32, u32),
    writeback: Writeback,
    hugetlb: Vec<page::PageId>,
    gigantic: Vec<page::PageId>,
    pool_changes: Vec<PoolChange>,
    /// The cursor of linear reclaim, by zone.
    linear_cursor: Vec<u64>,
    counters: Counters,
    random: Random,
    slice: Slice,
    /// Pages requested in advance for a read, the first one last; empty between slices.
    read_batch: Vec<page::PageId>,
    killed: Vec<OomKill>,
    operations: u64,
}

/// Processes of one kind.
#[derive(Clone, Debug, Default)]
struct Population {
    wanted: u32,
    running: u32,
    started: u64,
    ended: u64,
}

/// The cost of the current slice so far.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    cpu: u16,
    /// CPU time.
    spent_ns: u64,
    /// When the disk has what it waits for.
    wait_until_ns: u64,
    /// The process, if it is one.
    process: Option<u32>,
    /// Whether it is reclaiming: its own allocations must not reclaim.
    reclaims: bool,
}

impl Slice {
    /// The cost so far of a slice that started at `now_ns`: CPU time and waiting.
    fn time_ns(&self, now_ns: u64) -> u64 {
        self.spent_ns + self.wait_until_ns.saturating_sub(now_ns)
    }
}

impl Machine {
    /// A machine that has just booted, with nothing running.
    ///
    /// # Errors
    /// If the scenario's memory makes no layout.
    pub fn new(scenario: &Scenario, system: &Allocator) -> Result<Machine, LayoutError> {
        let mut layout = zones::layout(&shape(scenario, system))?;
        let blocks = system.settings.memory_blocks;
        if blocks.is_some() {
            layout = layout.with_hotplug();
        }
        let regions_daemon = blocks.map(|frames| Box::new(RegionsDaemon::new(&layout, frames)));
        let hardware = &scenario.machine;
        let huge = Order::new(hardware.huge_order).unwrap_or(Order::HUGE);
        // Blocks as large as the machine's huge page, where the system's lists can have them.
        let largest = huge.max(Order::LARGEST_FREE);
        let cpus = hardware.cpus / hardware.nodes.max(1);
        let site = Site {
            largest,
            cpus_per_node: cpus,
            watermark_boost_factor: Some(scenario.vm.watermark_boost_factor),
            ..Site::new(&layout, World::Machine)
        };
        let placement = system.build_for_machine(&site).expect("an allocator of this world");
        let node_of: Vec<usize> =
            layout.zones().iter().map(|zone| usize::from(zone.span.node)).collect();
        let lists = if system.settings.policies.node_lru {
            node_of
        } else {
            (0..layout.zones().len()).collect()
        };
        let memory = Memory::new(layout, placement, hardware.kernel.frames());
        let mut machine = Machine {
            lru: Lru::new(lists, system.settings.policies.reclaims_as_2_6),
            clock: Clock::new(hardware.cpus, !system.settings.policies.reclaims_as_2_6),
            disk: Disk::new(scenario.disk.seek.0, scenario.disk.bandwidth.0),
            swap: Swap::new(hardware.swap.frames() as u32),
            processes: Vec::new(),
            free_processes: Vec::new(),
            population: vec![Population::default(); scenario.processes.len()],
            files: Files::default(),
            slabs: Slabs::new(hardware.architecture, system.settings.policies.keeps_process_slabs),
            stack_places: Places::default(),
            kernel_objects: Vec::new(),
            kswapd: (0..hardware.nodes).map(|_| Kswapd::new()).collect(),
            compaction: compact::Compaction::new(
                &memory.layout,
                scenario,
                system.settings.policies.defrag_mode,
            ),
            upkeep: upkeep::Upkeep::new(hardware.nodes),
            regions_daemon,
            khugepaged_at: (0, 0),
            writeback: Writeback::default(),
            hugetlb: Vec::new(),
            gigantic: Vec::new(),
            pool_changes: Vec::new(),
            linear_cursor: Vec::new(),
            counters: Counters::default(),
            random: Random::new(scenario.seed),
            slice: Slice::default(),
            read_batch: Vec::new(),
            killed: Vec::new(),
            operations: 0,
            scenario: scenario.clone(),
            system: system.clone(),
            memory,
        };
        machine.create_files();
        machine.start_kernel_objects();
        machine.clock.wake(0, Actor::Flusher);
        machine.clock.wake(0, Actor::Khugepaged);
        if machine.regions_daemon.is_some() {
            machine.clock.wake(0, Actor::RegionsDaemon);
        }
        for node in 0..hardware.nodes {
            machine.clock.wake(0, Actor::Proactive(node));
            machine.clock.wake(0, Actor::Upkeep(node));
        }
        Ok(machine)
    }

    /// Lets everything happen that happens by `until_ns`.
    pub fn run_until(&mut self, until_ns: u64) {
        while let Some((actor, cpu)) = self.clock.next(until_ns) {
            self.slice = Slice { cpu, ..Slice::default() };
            let next = self.act(actor);
            let took = self.slice.spent_ns.max(100);
            let next = match next {
                Next::Again if self.slice.wait_until_ns > self.clock.now_ns() + took => {
                    Next::SleepUntil(self.slice.wait_until_ns)
                }
                next => next,
            };
            self.clock.slice(actor, cpu, took, next);
            #[cfg(debug_assertions)]
            self.validate_now_and_then();
        }
    }

    fn act(&mut self, actor: Actor) -> Next {
        match actor {
            Actor::Process(number, generation) => self.run_process(number, generation),
            Actor::Kswapd(node) => self.run_kswapd(node),
            Actor::Flusher => self.run_flusher(),
            Actor::KernelObjects(stream) => self.run_kernel_objects(stream),
            Actor::Arrivals(kind) => self.arrive(kind),
            Actor::Kcompactd(node) => self.run_kcompactd(node),
            Actor::Proactive(node) => self.run_proactive(node),
            Actor::Upkeep(node) => self.run_upkeep(node),
            Actor::Khugepaged => self.run_khugepaged(),
            Actor::RegionsDaemon => self.run_regions_daemon(),
        }
    }

    /// Simulated nanoseconds since boot.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Page allocations, frees, faults and reads so far: what a run is measured in.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Counters so far, by the kernel's names.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Frames, pages and placement.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The scenario that it runs.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The system that it runs under.
    pub fn system(&self) -> &Allocator {
        &self.system
    }

    /// The regions daemon, where memory blocks change zones.
    pub fn regions_daemon(&self) -> Option<&RegionsDaemon> {
        self.regions_daemon.as_deref()
    }

    /// The LRU lists.
    pub fn lru(&self) -> &Lru {
        &self.lru
    }

    /// Processes that the OOM killer chose.
    pub fn killed(&self) -> &[OomKill] {
        &self.killed
    }

    /// Processes of a kind that ended by themselves so far.
    pub fn ended(&self, kind: &str) -> u64 {
        let at = self.scenario.processes.iter().position(|process| process.name == kind);
        at.map_or(0, |at| self.population[at].ended)
    }

    /// Pages of swap in use.
    pub fn swap_used(&self) -> u64 {
        self.swap.used()
    }

    /// How far pools of persistent huge pages grew when phases asked for it.
    pub fn pool_changes(&self) -> &[PoolChange] {
        &self.pool_changes
    }

    fn spend(&mut self, ns: u64) {
        self.slice.spent_ns += ns;
    }

    /// The node that a CPU belongs to: CPUs are dealt out evenly.
    fn node_of_cpu(&self, cpu: u16) -> u16 {
        let hardware = &self.scenario.machine;
        (u32::from(cpu) * u32::from(hardware.nodes) / u32::from(hardware.cpus)) as u16
    }

    /// The highest zone that user memory may come from.
    fn highest_for_users(&self) -> ZoneKind {
        ZoneKind::Movable
    }

    /// The highest zone that page tables may come from: a 32-bit kernel maps them when it needs
    /// them (`CONFIG_HIGHPTE`).
    fn highest_for_page_tables(&self) -> ZoneKind {
        match self.scenario.machine.architecture {
            Architecture::X86_32 => ZoneKind::HighMem,
            _ => ZoneKind::Normal,
        }
    }
}

/// The memory of a scenario as a system cuts it.
fn shape(scenario: &Scenario, system: &Allocator) -> Shape {
    let hardware = &scenario.machine;
    let marks = match system.settings.policies.node_lru {
        false => Marks::Linux2_6,
        true => Marks::Linux6 {
            scale_factor: scenario.vm.watermark_scale_factor,
            huge_pages: system.settings.policies.huge_pages
                && scenario.vm.thp != scenario::HugePages::Never,
        },
    };
    let memory = hardware.memory.frames();
    let chosen = system.settings.kernelcore.map(|kernelcore| kernelcore.of(memory));
    let kernelcore = chosen.or(hardware.kernelcore.map(|core| core.frames()));
    Shape {
        frames: hardware.memory.frames(),
        nodes: hardware.nodes,
        architecture: hardware.architecture,
        kernelcore: kernelcore.filter(|_| system.settings.movable_zone),
        marks,
        low: hardware.low.map(scenario::Bytes::frames),
        min_free: scenario.vm.min_free.map(scenario::Bytes::frames),
    }
}
