//! Policies that users write, on the core: whatever they do, no frame has two owners, every count is
//! right, and what they do wrong is named.

mod model;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use prairie_frames::free_area::End;
use prairie_frames::placement::custom::{ASK, Core, Custom, Fault, Freed, LISTS, Policy, Report};
use prairie_frames::placement::{Placement, Request};
use prairie_frames::{Frame, FrameTable, Layout, Mobility, Order, Pfn, ZoneKind};
use proptest::prelude::*;

#[derive(Default)]
struct Slot(Mutex<Option<Fault>>);

impl Report for Slot {
    fn fault(&self, fault: Fault) {
        let before = self.0.lock().unwrap().replace(fault);
        assert!(before.is_none(), "a fault is reported once");
    }
}

impl Slot {
    fn text(&self) -> Option<String> {
        self.0.lock().unwrap().as_ref().map(|fault| fault.0.clone())
    }
}

/// A machine under a policy.
struct Machine<P> {
    layout: Layout,
    table: FrameTable,
    placement: Custom<P>,
    faults: Arc<Slot>,
}

impl<P: Policy> Machine<P> {
    fn new(policy: P) -> Machine<P> {
        let layout = model::layout();
        let faults = Arc::new(Slot::default());
        let placement = Custom::new(&layout, "test", policy, faults.clone());
        let mut machine = Machine { table: FrameTable::new(&layout), layout, placement, faults };
        machine.placement.boot(&mut machine.table, &machine.layout);
        machine.placement.validate(&machine.table);
        machine
    }

    fn allocate(&mut self, request: &Request, owner: u32) -> Option<Frame> {
        let frame = self.placement.allocate(&mut self.table, request, owner);
        assert_eq!(self.table.block_of(owner), frame, "owner {owner}");
        self.placement.validate(&self.table);
        frame
    }

    fn free(&mut self, owner: u32) {
        let frame = self.table.block_of(owner).expect("it was allocated");
        self.placement.free(&mut self.table, frame, 0);
        self.placement.validate(&self.table);
    }

    /// The fault that a request provokes.
    fn fault_of(policy: P, request: &Request) -> String {
        let mut machine = Machine::new(policy);
        machine.allocate(request, 0);
        machine.faults.text().expect("the policy is at fault")
    }
}

/// A policy of one function.
struct Allocate<F>(F);

impl<F: FnMut(&mut Core, &Request) -> Result<Option<Pfn>, String>> Policy for Allocate<F> {
    fn allocate(&mut self, core: &mut Core, request: &Request) -> Result<Option<Pfn>, String> {
        (self.0)(core, request)
    }
}

fn request(order: u8) -> Request {
    Request { order: Order::new(order).unwrap(), ..Request::default() }
}

/// Takes a block and panics over faults, as a policy does that ignores none.
fn take(core: &mut Core, order: u8) -> Pfn {
    core.take_block(Order::new(order).unwrap(), None, 0, None).unwrap().unwrap()
}

#[test]
fn violations_name_the_call() {
    let first = |policy: &str| policy.split("call 2: ").nth(1).unwrap_or(policy).to_owned();
    let returned = Machine::fault_of(Allocate(|_: &mut Core, _: &_| Ok(Some(Pfn(9)))), &request(0));
    assert_eq!(
        returned,
        "policy test: allocate(order 0), call 2: returned frame 0x9: inside a block, expected a \
         block from take_block"
    );
    let outside = Allocate(|_: &mut Core, _: &_| Ok(Some(Pfn(1 << 40))));
    assert_eq!(
        first(&Machine::fault_of(outside, &request(0))),
        "returned frame 0x10000000000: outside memory, expected a frame of it"
    );
    let wrong_size = Allocate(|core: &mut Core, _: &_| Ok(Some(take(core, 1))));
    let text = first(&Machine::fault_of(wrong_size, &request(0)));
    assert!(text.ends_with("has order 1, expected order 0"), "{text}");
    let zone = Allocate(|core: &mut Core, request: &Request| {
        let highest = core.regions().len() - 1;
        core.take_block(request.order, Some(highest), 0, None).map_err(|fault| fault.0)
    });
    let dma = Request { highest_zone: ZoneKind::Dma, ..request(0) };
    let text = first(&Machine::fault_of(zone, &dma));
    assert!(text.ends_with("in zone Normal, expected DMA or below"), "{text}");
    let raises = Allocate(|_: &mut Core, _: &_| Err("ValueError: no".to_owned()));
    assert_eq!(first(&Machine::fault_of(raises, &request(0))), "ValueError: no");
    // A fault counts even if the policy ignores it and goes on correctly.
    let ignores = Allocate(|core: &mut Core, _: &_| {
        let _ = core.put(Pfn(5), 0, End::Head);
        Ok(Some(take(core, 0)))
    });
    let text = first(&Machine::fault_of(ignores, &request(0)));
    assert!(text.starts_with("put(frame 0x5): "), "{text}");
    let divides =
        Allocate(|core: &mut Core, _: &_| Ok(core.divide(0, Pfn(2048)).ok().map(|_| Pfn(0))));
    let text = first(&Machine::fault_of(divides, &request(0)));
    assert_eq!(text, "divide: expected in boot only");
}

#[test]
fn a_frame_is_not_handed_out_twice() {
    let mut again = None;
    let twice = Allocate(move |core: &mut Core, _: &_| {
        Ok(Some(*again.get_or_insert_with(|| take(core, 0))))
    });
    let mut machine = Machine::new(twice);
    let first = machine.allocate(&request(0), 0).unwrap();
    let second = machine.allocate(&request(0), 1).expect("the core's own rule places it");
    assert_ne!(first, second);
    let text = machine.faults.text().unwrap();
    assert!(text.ends_with("already in use, expected a block from take_block"), "{text}");
}

#[test]
fn split_merge_and_put_keep_the_lists() {
    let mut machine = Machine::new(Allocate(|core: &mut Core, request: &Request| {
        let lower = take(core, 3);
        let upper = core.split(lower).unwrap();
        assert_eq!(upper.0, lower.0 + 4);
        assert_eq!(core.block_at(upper).unwrap().map(|(order, _)| order.get()), Some(2));
        let free = core.taken_frames();
        core.put(upper, 1, End::Tail).unwrap();
        assert_eq!(core.taken_frames(), free - 4);
        // The buddy is on another list, and is merged from there.
        assert_eq!(core.merge(lower).unwrap(), Some(lower));
        core.put(lower, 0, End::Head).unwrap();
        Ok(core.take_block(request.order, None, 0, None).unwrap())
    }));
    let all: u64 = (0..3).map(|zone| machine.placement.free_frames(zone)).sum();
    machine.allocate(&request(0), 7).unwrap();
    machine.free(7);
    assert_eq!(machine.faults.text(), None);
    assert_eq!((0..3).map(|zone| machine.placement.free_frames(zone)).sum::<u64>(), all);
}

#[test]
fn a_block_near_a_frame_is_the_nearest() {
    let near = model::layout().zones().last().unwrap().span.start.0 + 1234;
    let mut machine = Machine::new(Allocate(move |core: &mut Core, request: &Request| {
        Ok(core.take_block(request.order, None, 0, Some(Pfn(near))).unwrap())
    }));
    let mut taken = Vec::new();
    for owner in 0..64 {
        let frame = machine.allocate(&request(0), owner).unwrap();
        taken.push(machine.layout.pfn(frame).0);
    }
    let mut expected: Vec<u64> = (near - 40..near + 40).collect();
    expected.sort_by_key(|pfn| (pfn.abs_diff(near), *pfn));
    assert_eq!(taken, expected[..64]);
}

#[test]
fn movable_memory_migrates_and_keeps_its_owner() {
    let mut before = None;
    let mut machine = Machine::new(Allocate(move |core: &mut Core, _: &_| {
        let block = take(core, 0);
        if let Some(old) = before.replace(block) {
            let target = take(core, 0);
            core.move_block(old, target).unwrap();
            core.put(old, 0, End::Head).unwrap();
        }
        Ok(Some(block))
    }));
    let movable = Request { mobility: Mobility::Movable, ..request(0) };
    let old = machine.allocate(&movable, 10).unwrap();
    machine.allocate(&movable, 11).unwrap();
    assert_ne!(machine.table.block_of(10), Some(old));
    assert_eq!(machine.faults.text(), None);
    machine.free(10);
}

/// Decides for many requests: unmovable ones from list 1, of which memory never comes.
struct Planner {
    asked: u32,
}

impl Policy for Planner {
    fn boot(&mut self, core: &mut Core) -> Result<(), String> {
        core.set_rule(Mobility::Unmovable, 1, End::Head).map_err(|fault| fault.0)
    }

    fn allocate(&mut self, core: &mut Core, request: &Request) -> Result<Option<Pfn>, String> {
        self.asked += 1;
        core.take_block(request.order, None, 0, None).map_err(|fault| fault.0)
    }

    fn plans(&self) -> bool {
        true
    }

    fn allocate_many(&mut self, _: &mut Core, requests: &[Request]) -> Result<Vec<u8>, String> {
        let place = |request: &Request| match (request.mobility, request.order.get()) {
            (Mobility::Unmovable, _) => 1,
            (_, 0) => 0,
            _ => ASK,
        };
        Ok(requests.iter().map(place).collect())
    }
}

#[test]
fn a_plan_places_in_order_and_asks_where_its_place_is_empty() {
    let mut machine = Machine::new(Planner { asked: 0 });
    let movable = |order| Request { mobility: Mobility::Movable, ..request(order) };
    let requests = [request(0), movable(0), movable(3), request(0)];
    machine.placement.plan(&mut machine.table, &requests);
    let frames: Vec<Frame> = (0u32..3)
        .map(|owner| machine.allocate(&requests[owner as usize], owner * 8).unwrap())
        .collect();
    // The unmovable frame returns to list 1, and the last request gets it from there unasked.
    machine.free(0);
    assert_eq!(machine.allocate(&requests[3], 0), Some(frames[0]));
    assert_eq!(machine.faults.text(), None);
    // A plan of the wrong length is a fault.
    struct Short;
    impl Policy for Short {
        fn allocate(&mut self, _: &mut Core, _: &Request) -> Result<Option<Pfn>, String> {
            Ok(None)
        }
        fn plans(&self) -> bool {
            true
        }
    }
    let mut machine = Machine::new(Short);
    machine.placement.plan(&mut machine.table, &requests);
    assert!(machine.faults.text().unwrap().ends_with("0 places, expected 4"));
    assert!(!machine.placement.plans(), "it is not asked any more");
}

/// One thing that a wild policy does in a call.
#[derive(Clone, Debug)]
enum Wild {
    Take { order: u8, region: Option<usize>, list: usize, near: Option<u64> },
    Put { which: prop::sample::Index, list: usize },
    Split { which: prop::sample::Index },
    Merge { which: prop::sample::Index },
    Move { from: prop::sample::Index, to: prop::sample::Index },
    Forge { pfn: u64 },
    Fail,
}

/// Does what a script says, mostly with blocks that it saw, and answers correctly or not.
struct WildPolicy {
    script: Vec<Wild>,
    at: usize,
    seen: Vec<Pfn>,
    honest: bool,
}

impl WildPolicy {
    fn act(&mut self, core: &mut Core) -> Result<(), String> {
        let Some(action) = self.script.get(self.at % self.script.len().max(1)).cloned() else {
            return Ok(());
        };
        self.at += 1;
        let seen = |which: prop::sample::Index, seen: &[Pfn]| match seen {
            [] => Pfn(0),
            seen => *which.get(seen),
        };
        match action {
            Wild::Take { order, region, list, near } => {
                let order = Order::new(order).unwrap();
                let near = near.map(Pfn);
                if let Ok(Some(pfn)) = core.take_block(order, region, list, near) {
                    self.seen.push(pfn);
                }
            }
            _ if self.honest => {}
            Wild::Put { which, list } => drop(core.put(seen(which, &self.seen), list, End::Tail)),
            Wild::Split { which } => {
                if let Ok(upper) = core.split(seen(which, &self.seen)) {
                    self.seen.push(upper);
                }
            }
            Wild::Merge { which } => drop(core.merge(seen(which, &self.seen))),
            Wild::Move { from, to } => {
                drop(core.move_block(seen(from, &self.seen), seen(to, &self.seen)));
            }
            Wild::Forge { pfn } => self.seen.push(Pfn(pfn)),
            Wild::Fail => return Err("wild".to_owned()),
        }
        Ok(())
    }
}

impl Policy for WildPolicy {
    fn allocate(&mut self, core: &mut Core, request: &Request) -> Result<Option<Pfn>, String> {
        self.act(core)?;
        if !self.honest && self.at.is_multiple_of(3) {
            return Ok(self.seen.last().copied());
        }
        core.take_block(request.order, None, 0, None).map_err(|fault| fault.0)
    }

    fn free(&mut self, core: &mut Core, block: &Freed) -> Result<(), String> {
        self.act(core)?;
        if self.honest || !self.at.is_multiple_of(5) {
            core.put(block.pfn, self.at % LISTS, End::Head).map_err(|fault| fault.0)?;
        }
        Ok(())
    }

    fn tick(&mut self, core: &mut Core) -> Result<(), String> {
        self.act(core)
    }
}

fn wild() -> impl Strategy<Value = Wild> {
    let index = any::<prop::sample::Index>;
    let region = prop::option::of(0..5usize);
    let near = prop::option::of(0..20_000u64);
    prop_oneof![
        4 => (0..12u8, region, 0..9usize, near)
            .prop_map(|(order, region, list, near)| Wild::Take { order, region, list, near }),
        2 => (index(), 0..9usize).prop_map(|(which, list)| Wild::Put { which, list }),
        1 => index().prop_map(|which| Wild::Split { which }),
        1 => index().prop_map(|which| Wild::Merge { which }),
        1 => (index(), index()).prop_map(|(from, to)| Wild::Move { from, to }),
        1 => (0..30_000u64).prop_map(|pfn| Wild::Forge { pfn }),
        1 => Just(Wild::Fail),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Nothing that a policy does gives a frame two owners or makes a count wrong, and the machine
    /// goes on after its fault.
    #[test]
    fn wild_policies_are_contained(
        script in prop::collection::vec(wild(), 1..12),
        honest in any::<bool>(),
        steps in prop::collection::vec(model::step(4), 1..60),
    ) {
        let policy = WildPolicy { script, at: 0, seen: Vec::new(), honest };
        let mut machine = Machine::new(policy);
        let mut live: BTreeMap<u32, Order> = BTreeMap::new();
        let mut owner = 0;
        for step in steps {
            match step {
                model::Step::Allocate { order, migrate_type, highest_zone, cpu, .. } => {
                    let order = Order::new(order).unwrap();
                    let mobility = prairie_frames::table::mobility_of(migrate_type);
                    let request =
                        Request { order, migrate_type, mobility, highest_zone, cpu, ..request(0) };
                    if machine.allocate(&request, owner).is_some() {
                        live.insert(owner, order);
                    }
                    owner += 16;
                }
                model::Step::Free { which, .. } if !live.is_empty() => {
                    let keys: Vec<u32> = live.keys().copied().collect();
                    let owner = *which.get(&keys);
                    live.remove(&owner);
                    machine.free(owner);
                }
                _ => machine.placement.maintain(&mut machine.table),
            }
            machine.placement.validate(&machine.table);
            // Each owner has its own frames: the table's counts and these agree.
            let used: u64 = live.values().map(|order| order.frames()).sum();
            let counted: u64 =
                machine.table.blocks().iter().map(|b| u64::from(b.movable + b.unmovable)).sum();
            prop_assert_eq!(used, counted);
        }
    }
}
