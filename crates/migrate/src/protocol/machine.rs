//! The protocol as a model to be checked.

use crate::checker::model::Model;

use super::action::{Action, Agent};
use super::coarse::Layer;
use super::design::Design;
use super::property::Property;
use super::state::{
    Access, Cell, Core, Device, FRAMES, Fault, Held, Invalidation, NONE, Owner, PAGES, Page,
    Request, Stage, State, WriteBack,
};
use super::table::Table;

/// A machine of `C` cores and `D` devices, whose `P` pages of `L` lines lie in `F` frames.
#[derive(Clone, Copy, Debug)]
pub struct Machine<
    const C: usize,
    const D: usize,
    const L: usize,
    const P: usize = PAGES,
    const F: usize = FRAMES,
> {
    /// The modeled design.
    pub design: Design,
}

impl<const C: usize, const D: usize, const L: usize, const P: usize, const F: usize>
    Machine<C, D, L, P, F>
{
    pub(super) fn start(&self) -> State<C, D, L, P, F> {
        let design = &self.design;
        let last = u8::from(design.values == 0);
        let mut owners = [Owner::Unused; F];
        let mut memory = [[Cell::new(Access::Shared, design.stale()); L]; F];
        let mut pages = [unused_page(); P];
        let mut tlb = [NONE; P];
        for page in 0..usize::from(design.pages) {
            let home = page as u8;
            owners[page] = Owner::page(page);
            memory[page] = [Cell::new(Access::Shared, last); L];
            let first = page == 0 || design.together;
            let stage = if first { Stage::Idle } else { Stage::Waiting };
            pages[page] = Page { stage, home, target: NONE, table: home, io_table: home };
            tlb[page] = home;
        }
        let core = Core {
            copies: [[Cell::EMPTY; L]; F],
            tlb: if design.empty_tlb { [NONE; P] } else { tlb },
            walk: [NONE; P],
            request: Request::NONE,
            write_back: WriteBack::NONE,
            invalidation: [Invalidation::None; P],
        };
        let device = Device {
            tlb,
            own_tlb: if design.ats { tlb } else { [NONE; P] },
            read: Request::NONE,
            posted: Request::NONE,
            invalidation: [Invalidation::None; P],
        };
        State {
            cores: [core; C],
            devices: [device; D],
            memory,
            llc: [[Cell::EMPTY; L]; F],
            table: Table::new(if design.together { P } else { 1 + usize::from(design.chains()) }),
            held: [Held::NONE; P],
            asked: [false; P],
            lagging: false,
            pages,
            owners,
            last: [[last; L]; P],
            fault: Fault::None,
        }
    }
}

fn unused_page() -> Page {
    Page { stage: Stage::Done, home: NONE, target: NONE, table: NONE, io_table: NONE }
}

impl<const C: usize, const D: usize, const L: usize, const P: usize, const F: usize> Model
    for Machine<C, D, L, P, F>
{
    type State = State<C, D, L, P, F>;
    type Action = Action;
    type Property = Property;

    /// Nothing is cached. With dirty destinations, also: a core holds a line of the free frame,
    /// modified, from the frame's previous use.
    fn initial(&self) -> Vec<State<C, D, L, P, F>> {
        let start = self.start();
        let mut all = vec![start];
        if self.design.dirty_destination {
            let free = usize::from(self.design.pages);
            let mut dirty = start;
            dirty.cores[0].copies[free][0] = Cell::new(Access::Modified, self.design.stale());
            all.push(dirty);
        }
        all
    }

    #[inline]
    fn successors(
        &self,
        state: &State<C, D, L, P, F>,
        emit: &mut impl FnMut(Action, State<C, D, L, P, F>),
    ) {
        if state.fault != Fault::None {
            return;
        }
        // One copy of the steps for all callers: theirs would be megabytes of code.
        let emit = &mut (emit as &mut dyn FnMut(Action, State<C, D, L, P, F>));
        for core in 0..C {
            state.core_steps(&self.design, core, 0..L, emit);
        }
        for device in 0..D {
            state.device_steps(&self.design, device, 0..L, emit);
        }
        state.engine_steps(&self.design, 0..L, emit);
        for page in 0..P {
            state.system_steps(&self.design, page, emit);
        }
    }

    #[inline]
    fn violated(&self, state: &State<C, D, L, P, F>) -> Option<Property> {
        match self.design.only {
            None => state.violated(),
            Some(only) => state.breaks(only).then_some(only),
        }
    }

    #[inline]
    fn canonical(&self, mut state: State<C, D, L, P, F>) -> State<C, D, L, P, F> {
        if !self.design.keep_finished {
            state.forget_finished();
        }
        if self.design.symmetry {
            state.cores.sort_unstable();
        }
        state
    }
}

impl<const C: usize, const D: usize, const L: usize, const P: usize, const F: usize> Layer
    for Machine<C, D, L, P, F>
{
    fn steps_of(
        &self,
        state: &State<C, D, L, P, F>,
        agent: Agent,
        emit: &mut impl FnMut(Action, State<C, D, L, P, F>),
    ) {
        let emit = &mut (emit as &mut dyn FnMut(Action, State<C, D, L, P, F>));
        match agent {
            Agent::Core(core) => state.core_steps(&self.design, core.into(), 0..L, emit),
            Agent::Device(device) => state.device_steps(&self.design, device.into(), 0..L, emit),
            Agent::System | Agent::Cache | Agent::Engine => {}
        }
    }

    fn is_unseen(&self, state: &State<C, D, L, P, F>, agent: Agent, sent: &Action) -> bool {
        state.is_unseen(&self.design, agent, sent)
    }
}

impl<const C: usize, const D: usize, const L: usize, const P: usize, const F: usize>
    State<C, D, L, P, F>
{
    /// Whether an agent still has the translation by which it sent a request, and no invalidation
    /// that is due could wait for it.
    pub(super) fn is_unseen(&self, design: &Design, agent: Agent, sent: &Action) -> bool {
        let page = usize::from(sent.page);
        let now = match agent {
            Agent::Core(core) => self.cores[usize::from(core)].tlb[page],
            Agent::Device(d) if design.ats => self.devices[usize::from(d)].own_tlb[page],
            Agent::Device(d) => self.devices[usize::from(d)].tlb[page],
            Agent::System | Agent::Cache | Agent::Engine => NONE,
        };
        let goes = |page: &Page| page.change().is_some_and(|(_, old)| old == sent.frame);
        now == sent.frame && !self.pages.iter().any(goes)
    }

    /// A page whose traffic has ended: what is left of it under its final name can no longer
    /// meet anything. What is left under another name stays.
    fn forget_finished(&mut self) {
        for page in 0..P {
            let Page { stage, home, .. } = self.pages[page];
            if stage != Stage::Done || home == NONE {
                continue;
            }
            let at = usize::from(home);
            for core in &mut self.cores {
                core.copies[at] = [Cell::EMPTY; L];
                if core.request.frame == home {
                    core.request = Request::NONE;
                }
                if core.write_back.frame == home {
                    core.write_back = WriteBack::NONE;
                }
            }
            for device in &mut self.devices {
                for request in [&mut device.read, &mut device.posted] {
                    if request.frame == home {
                        *request = Request::NONE;
                    }
                }
            }
            self.llc[at] = [Cell::EMPTY; L];
            self.memory[at] = [Cell::EMPTY; L];
        }
    }
}
