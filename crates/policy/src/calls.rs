//! The core as functions that a library can call.
//!
//! Each function gets the [`Context`] of the call that the library is in. Arguments are checked by
//! the core; a wrong one is noted there and ends the replay.

use std::ffi::c_void;

use prairie_frames::free_area::End;
use prairie_frames::placement::Request;
use prairie_frames::placement::custom::{Core, Freed};
use prairie_frames::{MigrateType, Mobility, Order, Pfn, ZoneKind};

use crate::abi::{CoreTable, FAILED, NONE, RawBlock, RawRegion, RawRequest, Text};

/// A call that a library is in.
pub struct Context<'a> {
    core: &'a mut Core,
    reason: Option<String>,
}

impl<'a> Context<'a> {
    /// A call with this core.
    pub fn new(core: &'a mut Core) -> Context<'a> {
        Context { core, reason: None }
    }

    /// The functions, valid as long as the context is not moved.
    pub fn table(&mut self) -> CoreTable {
        CoreTable {
            context: (&raw mut *self).cast(),
            regions,
            region,
            regions_for,
            blocks,
            divide,
            take_block,
            put,
            split,
            merge,
            move_block,
            put_back,
            fail,
        }
    }

    /// Why the call failed, as the library says.
    pub fn reason(self) -> Option<String> {
        self.reason
    }
}

/// A request as the library sees it.
pub fn raw_request(request: &Request) -> RawRequest {
    RawRequest {
        gfp_flags: request.gfp_flags,
        node: request.node,
        cpu: request.cpu,
        order: request.order.get(),
        mobility: request.mobility as u8,
        migrate_type: request.migrate_type as u8,
        highest_zone: request.highest_zone as u8,
    }
}

/// A freed block as the library sees it.
pub fn raw_block(block: &Freed) -> RawBlock {
    RawBlock {
        frame: block.pfn.0,
        cpu: block.cpu,
        order: block.order.get(),
        mobility: block.mobility as u8,
    }
}

/// The core of a call.
///
/// # Safety
/// `context` is that of a table of [`Context::table`], and the library is in that call.
unsafe fn core<'a>(context: *mut c_void) -> &'a mut Core {
    // SAFETY: the caller has promised that the context lives; the library calls one function at a
    // time, and none of them keeps the reference.
    unsafe { &mut *(*context.cast::<Context<'a>>()).core }
}

/// A number that may be too large for any list, region or order: the core refuses those.
fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

unsafe extern "C" fn regions(context: *mut c_void) -> u64 {
    // SAFETY: as `core` requires.
    unsafe { core(context) }.regions().len() as u64
}

unsafe extern "C" fn region(context: *mut c_void, at: u64, out: *mut RawRegion) -> i32 {
    // SAFETY: as `core` requires.
    let core = unsafe { core(context) };
    let (Some(region), false) = (core.regions().get(index(at)), out.is_null()) else { return -1 };
    let layout = core.layout();
    let span = &layout.zones()[region.zone].span;
    let start = layout.pfn(region.start).0;
    let frames = u64::from(region.end.0 - region.start.0);
    let raw = RawRegion {
        start,
        end: start + frames,
        free_frames: region.free_frames(),
        node: span.node,
        zone: span.kind as u8,
    };
    // SAFETY: the library passes room for a region.
    unsafe { out.write(raw) };
    0
}

unsafe extern "C" fn regions_for(
    context: *mut c_void,
    request: *const RawRequest,
    out: *mut u64,
    room: u64,
) -> u64 {
    // SAFETY: as `core` requires; the library passes a request or none.
    let (core, request) = unsafe { (core(context), request.as_ref()) };
    let Some(request) = request.and_then(request_of) else { return 0 };
    let found = core.regions_for(&request);
    if !out.is_null() {
        for (at, &region) in found.iter().enumerate().take(index(room)) {
            // SAFETY: the library passes room for this many numbers.
            unsafe { out.add(at).write(region as u64) };
        }
    }
    found.len() as u64
}

/// Where a request may go; the rest of it does not matter to the core.
fn request_of(raw: &RawRequest) -> Option<Request> {
    Some(Request {
        order: Order::new(raw.order)?,
        migrate_type: MigrateType::from_index(raw.migrate_type)?,
        highest_zone: ZoneKind::ALL.get(usize::from(raw.highest_zone)).copied()?,
        node: raw.node,
        cpu: raw.cpu,
        gfp_flags: raw.gfp_flags,
        ..Request::default()
    })
}

unsafe extern "C" fn blocks(context: *mut c_void, region: u64, order: u8, list: u64) -> u64 {
    // SAFETY: as `core` requires.
    let core = unsafe { core(context) };
    match (core.regions().get(index(region)), Order::new(order)) {
        (Some(region), Some(order)) => region.blocks(order, index(list)),
        _ => 0,
    }
}

unsafe extern "C" fn divide(context: *mut c_void, region: u64, at: u64) -> u64 {
    // SAFETY: as `core` requires.
    let divided = unsafe { core(context) }.divide(index(region), Pfn(at));
    divided.map_or(FAILED, |region| region as u64)
}

unsafe extern "C" fn take_block(
    context: *mut c_void,
    order: u8,
    region: u64,
    list: u64,
    near: u64,
) -> u64 {
    // SAFETY: as `core` requires.
    let core = unsafe { core(context) };
    let region = (region != NONE).then(|| index(region));
    let near = (near != NONE).then_some(Pfn(near));
    // No list has blocks of such an order, so that there is none to take.
    let order = Order::new(order).unwrap_or(Order::LIMIT);
    match core.take_block(order, region, index(list), near) {
        Ok(Some(pfn)) => pfn.0,
        Ok(None) => NONE,
        Err(_) => FAILED,
    }
}

unsafe extern "C" fn put(context: *mut c_void, frame: u64, list: u64, tail: i32) -> i32 {
    let end = if tail == 0 { End::Head } else { End::Tail };
    // SAFETY: as `core` requires.
    status(unsafe { core(context) }.put(Pfn(frame), index(list), end))
}

unsafe extern "C" fn split(context: *mut c_void, frame: u64) -> u64 {
    // SAFETY: as `core` requires.
    unsafe { core(context) }.split(Pfn(frame)).map_or(FAILED, |upper| upper.0)
}

unsafe extern "C" fn merge(context: *mut c_void, frame: u64) -> u64 {
    // SAFETY: as `core` requires.
    match unsafe { core(context) }.merge(Pfn(frame)) {
        Ok(Some(lower)) => lower.0,
        Ok(None) => NONE,
        Err(_) => FAILED,
    }
}

unsafe extern "C" fn move_block(context: *mut c_void, from: u64, to: u64) -> i32 {
    // SAFETY: as `core` requires.
    status(unsafe { core(context) }.move_block(Pfn(from), Pfn(to)))
}

unsafe extern "C" fn put_back(context: *mut c_void, block: *const RawBlock) -> i32 {
    // SAFETY: as `core` requires; the library passes a block or none.
    let (core, block) = unsafe { (core(context), block.as_ref()) };
    let Some(block) = block else { return -1 };
    let mobility = match block.mobility {
        1 => Mobility::Movable,
        2 => Mobility::Unmovable,
        _ => Mobility::Unknown,
    };
    let order = Order::new(block.order).unwrap_or(Order::BASE);
    let freed = Freed { pfn: Pfn(block.frame), order, mobility, cpu: block.cpu };
    core.put_back(&freed);
    0
}

unsafe extern "C" fn fail(context: *mut c_void, text: Text) {
    /// No reason is longer: a wrong length must not read far.
    const MAX_BYTES: usize = 1 << 16;
    // SAFETY: as `core` requires.
    let context = unsafe { &mut *context.cast::<Context<'_>>() };
    let reason = match text.data.is_null() || text.bytes > MAX_BYTES {
        true => String::new(),
        false => {
            // SAFETY: the library passes a text of this length.
            let bytes = unsafe { std::slice::from_raw_parts(text.data, text.bytes) };
            String::from_utf8_lossy(bytes).replace('\n', " ")
        }
    };
    context.reason.get_or_insert(reason);
}

fn status<E>(result: Result<(), E>) -> i32 {
    if result.is_ok() { 0 } else { -1 }
}
