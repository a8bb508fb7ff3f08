//! A safe interface over [`abi`](crate::abi): implement [`Policy`] and name it in [`export`].

use std::cell::RefCell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::Once;

use crate::abi::{
    CoreTable, FAILED, NONE, PolicyTable, RawBlock, RawRegion, RawRequest, Text, VERSION,
};

/// A fault that Prairie has noted, or the policy's own reason to end the replay.
pub type Failure = String;

/// A placement policy.
pub trait Policy: Default {
    /// The name in tables and charts.
    const NAME: &'static str;
    /// A description in one sentence.
    const SUMMARY: &'static str;

    /// Prepares regions, before any memory is there.
    fn boot(&mut self, _core: &mut Core) -> Result<(), Failure> {
        Ok(())
    }

    /// A block that was taken from the core, of the order requested; `None` if nothing fits.
    fn allocate(&mut self, core: &mut Core, request: &RawRequest) -> Result<Option<u64>, Failure>;

    /// Puts a freed block, which counts as taken, on a free list, or keeps it.
    fn free(&mut self, core: &mut Core, block: &RawBlock) -> Result<(), Failure> {
        core.put_back(block)
    }

    /// Upkeep off the allocation path.
    fn tick(&mut self, _core: &mut Core) -> Result<(), Failure> {
        Ok(())
    }
}

/// The mobility of memory that cannot be moved.
#[allow(dead_code)]
pub const UNMOVABLE: u8 = 2;

/// The buddy core: free lists by region. A wrong argument ends the replay.
pub struct Core<'a> {
    table: &'a CoreTable,
    call: PhantomData<&'a mut ()>,
}

// A policy uses what it needs.
#[allow(dead_code)]
impl Core<'_> {
    /// The regions: the machine's zones, and parts that `divide` made of them.
    pub fn regions(&self) -> Vec<RawRegion> {
        // SAFETY: the table is valid during the call, and so is the region that is written to.
        unsafe {
            let count = (self.table.regions)(self.table.context);
            let region = |at| {
                let mut region = RawRegion::default();
                (self.table.region)(self.table.context, at, &mut region);
                region
            };
            (0..count).map(region).collect()
        }
    }

    /// The regions that a request may use, best first, by number.
    pub fn regions_for(&self, request: &RawRequest) -> Vec<u64> {
        let mut found = [0; 32];
        // SAFETY: the table is valid during the call, and the array has the length that is passed.
        let count = unsafe {
            let length = found.len() as u64;
            (self.table.regions_for)(self.table.context, request, found.as_mut_ptr(), length)
        };
        found[..found.len().min(count as usize)].to_vec()
    }

    /// Blocks on a free list.
    pub fn blocks(&self, region: u64, order: u8, list: u64) -> u64 {
        // SAFETY: the table is valid during the call.
        unsafe { (self.table.blocks)(self.table.context, region, order, list) }
    }

    /// Divides a region at a frame, rounded down to 4 MiB, and returns the upper part. In `boot`.
    pub fn divide(&mut self, region: u64, at: u64) -> Result<u64, Failure> {
        // SAFETY: the table is valid during the call.
        frame(unsafe { (self.table.divide)(self.table.context, region, at) })
            .map(|region| region.unwrap_or(NONE))
    }

    /// Takes a block from list 0 of a region, or of the best region that the request may use.
    pub fn take_block(&mut self, order: u8, region: Option<u64>) -> Result<Option<u64>, Failure> {
        self.take_from(order, region, 0, None)
    }

    /// Takes a block from a list; the one nearest to a frame, or the first.
    pub fn take_from(
        &mut self,
        order: u8,
        region: Option<u64>,
        list: u64,
        near: Option<u64>,
    ) -> Result<Option<u64>, Failure> {
        let (region, near) = (region.unwrap_or(NONE), near.unwrap_or(NONE));
        // SAFETY: the table is valid during the call.
        frame(unsafe { (self.table.take_block)(self.table.context, order, region, list, near) })
    }

    /// Puts a taken block on a list, after merging it with its free buddies.
    pub fn put(&mut self, block: u64, list: u64, tail: bool) -> Result<(), Failure> {
        // SAFETY: the table is valid during the call.
        status(unsafe { (self.table.put)(self.table.context, block, list, i32::from(tail)) })
    }

    /// Splits a taken block into halves, both taken; returns the upper one.
    pub fn split(&mut self, block: u64) -> Result<u64, Failure> {
        // SAFETY: the table is valid during the call.
        frame(unsafe { (self.table.split)(self.table.context, block) })
            .map(|upper| upper.unwrap_or(NONE))
    }

    /// Merges a taken block with its buddy, if that is taken or on a list.
    pub fn merge(&mut self, block: u64) -> Result<Option<u64>, Failure> {
        // SAFETY: the table is valid during the call.
        frame(unsafe { (self.table.merge)(self.table.context, block) })
    }

    /// Migrates a movable block in use to a taken block of the same size.
    pub fn move_block(&mut self, from: u64, to: u64) -> Result<(), Failure> {
        // SAFETY: the table is valid during the call.
        status(unsafe { (self.table.move_block)(self.table.context, from, to) })
    }

    /// Puts a freed block back by the default rule.
    pub fn put_back(&mut self, block: &RawBlock) -> Result<(), Failure> {
        // SAFETY: the table is valid during the call.
        status(unsafe { (self.table.put_back)(self.table.context, block) })
    }
}

fn status(status: i32) -> Result<(), Failure> {
    if status == 0 { Ok(()) } else { Err(String::new()) }
}

fn frame(frame: u64) -> Result<Option<u64>, Failure> {
    match frame {
        FAILED => Err(String::new()),
        NONE => Ok(None),
        frame => Ok(Some(frame)),
    }
}

/// Runs a call of the policy. A panic becomes the reason why the call failed.
///
/// # Safety
/// `policy` comes from `create`, and both pointers are valid during the call.
unsafe fn call<P: Policy, T>(
    policy: *mut c_void,
    core: *const CoreTable,
    work: impl FnOnce(&mut P, &mut Core) -> Result<T, Failure>,
) -> Option<T> {
    // SAFETY: as the caller promises.
    let (policy, table) = unsafe { (&mut *policy.cast::<P>(), &*core) };
    let mut core = Core { table, call: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| work(policy, &mut core)));
    let reason = match result {
        Ok(Ok(value)) => return Some(value),
        Ok(Err(reason)) => reason,
        Err(_) => PANIC.take(),
    };
    let text = Text { data: reason.as_ptr(), bytes: reason.len() };
    // SAFETY: the table and the text are valid during the call.
    unsafe { (table.fail)(table.context, text) };
    None
}

thread_local! {
    /// Where this thread panicked last, and why.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps panics for the line that Prairie prints, instead of printing more. The hook is that of this
/// library alone.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| set_hook(Box::new(|panic| PANIC.set(panic.to_string()))));
}

unsafe extern "C" fn create<P: Policy>() -> *mut c_void {
    keep_panics();
    match catch_unwind(P::default) {
        Ok(policy) => Box::into_raw(Box::new(policy)).cast(),
        Err(_) => std::ptr::null_mut(),
    }
}

unsafe extern "C" fn destroy<P: Policy>(policy: *mut c_void) {
    // SAFETY: the pointer comes from `create`, and Prairie uses it no more.
    let policy = unsafe { Box::from_raw(policy.cast::<P>()) };
    // A panic must not cross into Prairie.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(policy)));
}

unsafe extern "C" fn boot<P: Policy>(policy: *mut c_void, core: *const CoreTable) -> i32 {
    // SAFETY: as Prairie promises.
    let done = unsafe { call(policy, core, |policy: &mut P, core| policy.boot(core)) };
    if done.is_some() { 0 } else { -1 }
}

unsafe extern "C" fn allocate<P: Policy>(
    policy: *mut c_void,
    core: *const CoreTable,
    request: *const RawRequest,
) -> u64 {
    // SAFETY: as Prairie promises.
    let done = unsafe {
        let request = &*request;
        call(policy, core, |policy: &mut P, core| policy.allocate(core, request))
    };
    done.map_or(FAILED, |frame| frame.unwrap_or(NONE))
}

unsafe extern "C" fn free<P: Policy>(
    policy: *mut c_void,
    core: *const CoreTable,
    block: *const RawBlock,
) -> i32 {
    // SAFETY: as Prairie promises.
    let done = unsafe {
        let block = &*block;
        call(policy, core, |policy: &mut P, core| policy.free(core, block))
    };
    if done.is_some() { 0 } else { -1 }
}

unsafe extern "C" fn tick<P: Policy>(policy: *mut c_void, core: *const CoreTable) -> i32 {
    // SAFETY: as Prairie promises.
    let done = unsafe { call(policy, core, |policy: &mut P, core| policy.tick(core)) };
    if done.is_some() { 0 } else { -1 }
}

/// The table of a policy.
pub const fn table<P: Policy>() -> PolicyTable {
    PolicyTable {
        version: VERSION,
        name: Text { data: P::NAME.as_ptr(), bytes: P::NAME.len() },
        summary: Text { data: P::SUMMARY.as_ptr(), bytes: P::SUMMARY.len() },
        create: create::<P>,
        destroy: destroy::<P>,
        boot: boot::<P>,
        allocate: allocate::<P>,
        free: free::<P>,
        tick: tick::<P>,
    }
}

/// A table that is never changed, though its texts are raw pointers.
pub struct Exported(pub PolicyTable);

// SAFETY: the table points to constants.
unsafe impl Sync for Exported {}

/// Exports a policy under the name that Prairie looks for.
macro_rules! export {
    ($policy:ty) => {
        /// The policy of this library.
        #[unsafe(no_mangle)]
        pub extern "C" fn prairie_policy_v1() -> *const $crate::abi::PolicyTable {
            static TABLE: $crate::prairie::Exported =
                $crate::prairie::Exported($crate::prairie::table::<$policy>());
            &raw const TABLE.0
        }
    };
}
pub(crate) use export;
