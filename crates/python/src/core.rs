//! The buddy core as Python objects.

use prairie_frames::free_area::End;
use prairie_frames::placement::Request as FrameRequest;
use prairie_frames::placement::custom::{self, Fault, Freed};
use prairie_frames::{Layout, Mobility, Order, Pfn};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::error::PolicyError;

/// The free lists of a machine, by region. Usable while the policy is called.
#[pyclass(module = "prairie._prairie")]
pub struct Core {
    core: custom::Core,
    live: bool,
}

impl Core {
    /// A core without memory, to be exchanged for a machine's.
    pub fn idle(layout: &Layout) -> Core {
        Core { core: custom::Core::new(layout, ""), live: false }
    }

    /// Lends the machine's core, or gives it back.
    pub fn exchange(&mut self, core: &mut custom::Core, live: bool) {
        std::mem::swap(&mut self.core, core);
        self.live = live;
    }

    fn live(&mut self) -> PyResult<&mut custom::Core> {
        match self.live {
            true => Ok(&mut self.core),
            false => Err(PolicyError::new_err(
                "core: used outside a call of the policy, expected during one",
            )),
        }
    }
}

fn fault(fault: Fault) -> PyErr {
    PolicyError::new_err(fault.0)
}

fn order_of(order: u64) -> PyResult<Order> {
    let order = u8::try_from(order).ok().and_then(Order::new);
    order.ok_or_else(|| PyValueError::new_err("expected an order from 0 to 10"))
}

/// A region, or its number.
#[derive(FromPyObject)]
pub enum Place<'py> {
    Number(usize),
    Region(PyRef<'py, Region>),
}

impl Place<'_> {
    fn number(&self) -> usize {
        match self {
            Place::Number(number) => *number,
            Place::Region(region) => region.index,
        }
    }
}

fn end(tail: bool) -> End {
    if tail { End::Tail } else { End::Head }
}

#[pymethods]
impl Core {
    /// The regions: the machine's zones, and the parts that `divide` made of them.
    #[getter]
    fn regions(slf: Bound<'_, Self>) -> PyResult<Vec<Region>> {
        let count = slf.borrow_mut().live()?.regions().len();
        Ok((0..count).map(|index| Region { index, core: slf.clone().unbind() }).collect())
    }

    /// The numbers of the regions that a request may use, best first.
    fn regions_for<'py>(
        &mut self,
        py: Python<'py>,
        request: PyRef<'_, Request>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.live()?.regions_for(&request.0))
    }

    /// Takes a block of an order and returns its first frame; None if no list has one.
    #[pyo3(signature = (order, region=None, list=0, near=None))]
    fn take_block(
        &mut self,
        order: u64,
        region: Option<Place<'_>>,
        list: usize,
        near: Option<u64>,
    ) -> PyResult<Option<u64>> {
        let order = order_of(order)?;
        let region = region.map(|region| region.number());
        let taken = self.live()?.take_block(order, region, list, near.map(Pfn)).map_err(fault)?;
        Ok(taken.map(|pfn| pfn.0))
    }

    /// Puts a taken block on a list, after merging it with its free buddies.
    #[pyo3(signature = (frame, list=0, tail=false))]
    fn put(&mut self, frame: u64, list: usize, tail: bool) -> PyResult<()> {
        self.live()?.put(Pfn(frame), list, end(tail)).map_err(fault)
    }

    /// Splits a taken block; returns the upper half.
    fn split(&mut self, frame: u64) -> PyResult<u64> {
        Ok(self.live()?.split(Pfn(frame)).map_err(fault)?.0)
    }

    /// Merges a taken block with its buddy; returns the lower half, or None if it cannot.
    fn merge(&mut self, frame: u64) -> PyResult<Option<u64>> {
        Ok(self.live()?.merge(Pfn(frame)).map_err(fault)?.map(|pfn| pfn.0))
    }

    /// Migrates a movable block in use to a taken block of the same size.
    fn move_block(&mut self, source: u64, target: u64) -> PyResult<()> {
        self.live()?.move_block(Pfn(source), Pfn(target)).map_err(fault)
    }

    /// The order and the mobility of the block that starts at a frame; None if none does.
    fn block_at(&mut self, frame: u64) -> PyResult<Option<(u8, &'static str)>> {
        let found = self.live()?.block_at(Pfn(frame)).map_err(fault)?;
        Ok(found.map(|(order, mobility)| (order.get(), mobility.name())))
    }

    /// Divides a region at a frame, in `boot` only; returns the upper part.
    fn divide(slf: Bound<'_, Self>, region: Place<'_>, frame: u64) -> PyResult<Region> {
        let divided = slf.borrow_mut().live()?.divide(region.number(), Pfn(frame));
        Ok(Region { index: divided.map_err(fault)?, core: slf.unbind() })
    }

    /// Sets where freed blocks of a mobility go when the policy has no `free`.
    #[pyo3(signature = (mobility, list=0, tail=false))]
    fn set_free_rule(&mut self, mobility: &str, list: usize, tail: bool) -> PyResult<()> {
        let known = [Mobility::Movable, Mobility::Unmovable, Mobility::Unknown];
        let found = known.into_iter().find(|&known| known.name() == mobility);
        let expected = "expected `movable`, `unmovable`, or `unknown`";
        let found =
            found.ok_or_else(|| PyValueError::new_err(format!("{mobility}: {expected}")))?;
        self.live()?.set_rule(found, list, end(tail)).map_err(fault)
    }
}

/// A zone, or a part of one, with free lists of its own.
#[pyclass(frozen, module = "prairie._prairie")]
pub struct Region {
    index: usize,
    core: Py<Core>,
}

impl Region {
    fn with<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&custom::Core, &custom::Region) -> T,
    ) -> PyResult<T> {
        let mut seen = self.core.borrow_mut(py);
        let core = seen.live()?;
        match core.regions().get(self.index) {
            Some(region) => Ok(work(core, region)),
            None => Err(PolicyError::new_err("region: of another replay")),
        }
    }
}

#[pymethods]
impl Region {
    /// Its number.
    #[getter]
    fn index(&self) -> usize {
        self.index
    }

    /// First frame.
    #[getter]
    fn start(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |core, region| core.layout().pfn(region.start).0)
    }

    /// One past the last frame.
    #[getter]
    fn end(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.start(py)? + self.frames(py)?)
    }

    /// Frames, holes included.
    #[getter]
    fn frames(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |_, region| u64::from(region.end.0 - region.start.0))
    }

    /// Frames on its free lists.
    #[getter]
    fn free_frames(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |_, region| region.free_frames())
    }

    /// The name of its zone, such as `Normal`.
    #[getter]
    fn zone(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.with(py, |core, region| core.layout().zones()[region.zone].span.kind.name())
    }

    /// Its node.
    #[getter]
    fn node(&self, py: Python<'_>) -> PyResult<u16> {
        self.with(py, |core, region| core.layout().zones()[region.zone].span.node)
    }

    /// One of its free lists.
    #[pyo3(signature = (order, list=0))]
    fn free_list(slf: Bound<'_, Self>, order: u64, list: usize) -> PyResult<FreeList> {
        Ok(FreeList { region: slf.unbind(), order: order_of(order)?, list })
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match (self.start(py), self.end(py), self.zone(py)) {
            (Ok(start), Ok(end), Ok(zone)) => {
                format!("Region({}, {zone}, frames {start:#x} to {end:#x})", self.index)
            }
            _ => format!("Region({})", self.index),
        }
    }
}

/// The free blocks of one order on one list, head first.
#[pyclass(frozen, module = "prairie._prairie")]
pub struct FreeList {
    region: Py<Region>,
    order: Order,
    list: usize,
}

impl FreeList {
    fn blocks(&self, py: Python<'_>, limit: usize) -> PyResult<Vec<u64>> {
        let region = self.region.get();
        region.with(py, |core, _| {
            let blocks = core.blocks(region.index, self.order, self.list, limit);
            blocks.into_iter().map(|pfn| pfn.0).collect()
        })
    }
}

#[pymethods]
impl FreeList {
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let blocks =
            |_: &custom::Core, region: &custom::Region| region.blocks(self.order, self.list);
        Ok(self.region.get().with(py, blocks)? as usize)
    }

    /// The first frames of the blocks, head first.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.blocks(py, usize::MAX)?.into_pyobject(py)?.try_iter()?.into_any())
    }

    /// The block at the head; None if the list is empty.
    #[getter]
    fn first(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.blocks(py, 1)?.first().copied())
    }
}

/// A request for a block.
#[pyclass(frozen, module = "prairie._prairie")]
pub struct Request(pub FrameRequest);

#[pymethods]
impl Request {
    /// The block has two to this power frames.
    #[getter]
    fn order(&self) -> u8 {
        self.0.order.get()
    }

    /// `movable` or `unmovable`.
    #[getter]
    fn mobility(&self) -> &'static str {
        self.0.mobility.name()
    }

    /// The migrate type, as in /proc/pagetypeinfo.
    #[getter]
    fn migrate_type(&self) -> &'static str {
        self.0.migrate_type.name()
    }

    /// The highest zone that will do.
    #[getter]
    fn zone(&self) -> &'static str {
        self.0.highest_zone.name()
    }

    /// The node it should come from.
    #[getter]
    fn node(&self) -> u16 {
        self.0.node
    }

    /// The CPU that asks.
    #[getter]
    fn cpu(&self) -> u16 {
        self.0.cpu
    }

    /// The flags of the request, as Linux 6.1 numbers them.
    #[getter]
    fn gfp_flags(&self) -> u32 {
        self.0.gfp_flags
    }

    fn __repr__(&self) -> String {
        let (order, mobility) = (self.order(), self.mobility());
        format!("Request(order={order}, mobility='{mobility}', zone='{}')", self.zone())
    }
}

/// The requests that come next, as columns of one byte each.
#[pyclass(frozen, module = "prairie._prairie")]
pub struct Requests(pub Vec<FrameRequest>);

impl Requests {
    fn column<'py>(
        &self,
        py: Python<'py>,
        of: impl Fn(&FrameRequest) -> u8,
    ) -> Bound<'py, PyBytes> {
        let column: Vec<u8> = self.0.iter().map(of).collect();
        PyBytes::new(py, &column)
    }
}

#[pymethods]
impl Requests {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __getitem__(&self, at: usize) -> PyResult<Request> {
        let request = self.0.get(at).copied().map(Request);
        request.ok_or_else(|| pyo3::exceptions::PyIndexError::new_err("no such request"))
    }

    /// Orders.
    #[getter]
    fn order<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.column(py, |request| request.order.get())
    }

    /// Mobilities: 1 movable, 2 unmovable.
    #[getter]
    fn mobility<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.column(py, |request| request.mobility as u8)
    }

    /// Migrate types: 0 unmovable, 1 movable, 2 reclaimable, 3 high-atomic, 4 CMA, 5 isolate.
    #[getter]
    fn migrate_type<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.column(py, |request| request.migrate_type as u8)
    }

    /// Highest zones: 0 DMA, 1 DMA32, 2 Normal, 3 HighMem, 4 Movable, 5 Device.
    #[getter]
    fn zone<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.column(py, |request| request.highest_zone as u8)
    }

    /// Nodes, 255 for any beyond.
    #[getter]
    fn node<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.column(py, |request| u8::try_from(request.node).unwrap_or(u8::MAX))
    }
}

/// A freed block, which counts as taken.
#[pyclass(frozen, module = "prairie._prairie")]
pub struct Block(pub Freed);

#[pymethods]
impl Block {
    /// First frame.
    #[getter]
    fn frame(&self) -> u64 {
        self.0.pfn.0
    }

    /// The block has two to this power frames.
    #[getter]
    fn order(&self) -> u8 {
        self.0.order.get()
    }

    /// Its mobility while it was in use.
    #[getter]
    fn mobility(&self) -> &'static str {
        self.0.mobility.name()
    }

    /// The CPU that freed it.
    #[getter]
    fn cpu(&self) -> u16 {
        self.0.cpu
    }

    fn __repr__(&self) -> String {
        let (frame, order, mobility) = (self.frame(), self.order(), self.mobility());
        format!("Block(frame={frame:#x}, order={order}, mobility='{mobility}')")
    }
}
