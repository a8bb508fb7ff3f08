//! A loaded library, and a policy of it.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prairie_frames::Pfn;
use prairie_frames::placement::Request;
use prairie_frames::placement::custom::{Core, Freed, Policy};

use crate::abi::{CoreTable, FAILED, NONE, PolicyTable, Text, VERSION};
use crate::calls::{Context, raw_block, raw_request};

/// The function that a library exports.
const SYMBOL: &CStr = c"prairie_policy_v1";

/// Why a library could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is no library that can be loaded here.
    #[error("cannot load {}: {reason}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// The loader's reason.
        reason: String,
    },
    /// The library exports no policy.
    #[error(
        "{}: no function prairie_policy_v1, expected a library of `prairie allocators new`",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The library has another interface.
    #[error("{}: policy interface {version}, expected {VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The library's texts are not text.
    #[error("{}: the policy's name is not text, expected UTF-8 of 1 to 64 bytes", path.display())]
    Name {
        /// The file.
        path: PathBuf,
    },
}

/// A library with a policy. It stays loaded until the process ends: policies and their threads may
/// outlive any one value.
#[derive(Clone)]
pub struct Library {
    table: Arc<Loaded>,
}

struct Loaded {
    table: &'static PolicyTable,
    name: String,
    summary: String,
}

// SAFETY: the table is constant, and its functions may be called from any thread; a policy is used
// by one at a time.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Library {
    /// Loads a library, which runs its initializers.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(path: &Path) -> Result<Library, LoadError> {
        let refuse = |reason: String| LoadError::Load { path: path.into(), reason };
        // With a slash the loader does not search for it.
        let absolute = std::path::absolute(path).map_err(|error| refuse(error.to_string()))?;
        let text = CString::new(absolute.as_os_str().as_bytes());
        let text = text.map_err(|error| refuse(error.to_string()))?;
        // SAFETY: `text` is a path that ends in zero.
        let handle = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(refuse(loader_error(&absolute)));
        }
        // SAFETY: the handle is of a library that stays loaded.
        let symbol = unsafe { libc::dlsym(handle, SYMBOL.as_ptr()) };
        if symbol.is_null() {
            return Err(LoadError::Foreign { path: path.into() });
        }
        // SAFETY: a function of this name has this type; only a library that is meant for Prairie
        // has one.
        let table = unsafe {
            let function: unsafe extern "C" fn() -> *const PolicyTable =
                std::mem::transmute(symbol);
            function().as_ref()
        };
        let table = table.ok_or_else(|| LoadError::Foreign { path: path.into() })?;
        if table.version != VERSION {
            return Err(LoadError::Version { path: path.into(), version: table.version });
        }
        let name = text_of(table.name).filter(|name| (1..=64).contains(&name.len()));
        let summary = text_of(table.summary);
        let wrong = || LoadError::Name { path: path.into() };
        let (name, summary) = (name.ok_or_else(wrong)?, summary.ok_or_else(wrong)?);
        Ok(Library { table: Arc::new(Loaded { table, name, summary }) })
    }

    /// The policy's name.
    pub fn name(&self) -> &str {
        &self.table.name
    }

    /// Its description.
    pub fn summary(&self) -> &str {
        &self.table.summary
    }

    /// A policy for one replay.
    pub fn policy(&self) -> LibraryPolicy {
        // SAFETY: the table is that of a loaded library of this version.
        let state = unsafe { (self.table.table.create)() };
        LibraryPolicy { library: self.clone(), state }
    }
}

/// The loader's reason, without the path that the caller names.
fn loader_error(path: &Path) -> String {
    // SAFETY: the text is valid until the next call of the loader on this thread.
    let text = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text)) };
    let text = text.map(|text| text.to_string_lossy().replace('\n', " ")).unwrap_or_default();
    let path = format!("{}: ", path.display());
    text.strip_prefix(&path).unwrap_or(&text).to_owned()
}

/// A text of the library, copied.
fn text_of(text: Text) -> Option<String> {
    /// No text is longer: a wrong length must not read far.
    const MAX_BYTES: usize = 1 << 16;
    if text.data.is_null() || text.bytes > MAX_BYTES {
        return (text.bytes == 0).then(String::new);
    }
    // SAFETY: the library promises that its text has this length.
    let bytes = unsafe { std::slice::from_raw_parts(text.data, text.bytes) };
    String::from_utf8(bytes.to_vec()).ok()
}

/// A policy of a library.
pub struct LibraryPolicy {
    library: Library,
    state: *mut c_void,
}

// SAFETY: the interface says that a policy may be used by any thread, one at a time.
unsafe impl Send for LibraryPolicy {}

impl Drop for LibraryPolicy {
    fn drop(&mut self) {
        if !self.state.is_null() {
            // SAFETY: the state comes from `create` of the same library, and is used no more.
            unsafe { (self.library.table.table.destroy)(self.state) };
        }
    }
}

impl LibraryPolicy {
    /// Calls the library with the core; the reason that it left is the error.
    fn call<T>(
        &mut self,
        core: &mut Core,
        failed: impl Fn(&T) -> bool,
        work: impl FnOnce(&PolicyTable, *mut c_void, *const CoreTable) -> T,
    ) -> Result<T, String> {
        if self.state.is_null() {
            return Err("the library could not make a policy".to_owned());
        }
        let mut context = Context::new(core);
        let table = context.table();
        let value = work(self.library.table.table, self.state, &raw const table);
        let reason = context.reason();
        match failed(&value) {
            true => Err(reason.filter(|r| !r.is_empty()).unwrap_or_else(|| "failed".to_owned())),
            false => Ok(value),
        }
    }
}

impl Policy for LibraryPolicy {
    fn boot(&mut self, core: &mut Core) -> Result<(), String> {
        let failed = |status: &i32| *status != 0;
        // SAFETY: the state is the library's own, and the table lives as long as the call.
        self.call(core, failed, |table, state, core| unsafe { (table.boot)(state, core) })?;
        Ok(())
    }

    fn allocate(&mut self, core: &mut Core, request: &Request) -> Result<Option<Pfn>, String> {
        let (request, failed) = (raw_request(request), |frame: &u64| *frame == FAILED);
        let frame = self.call(core, failed, |table, state, core| {
            // SAFETY: as above; the request lives as long as the call.
            unsafe { (table.allocate)(state, core, &raw const request) }
        })?;
        Ok((frame != NONE).then_some(Pfn(frame)))
    }

    fn free(&mut self, core: &mut Core, block: &Freed) -> Result<(), String> {
        let (block, failed) = (raw_block(block), |status: &i32| *status != 0);
        self.call(core, failed, |table, state, core| {
            // SAFETY: as above; the block lives as long as the call.
            unsafe { (table.free)(state, core, &raw const block) }
        })?;
        Ok(())
    }

    fn tick(&mut self, core: &mut Core) -> Result<(), String> {
        let failed = |status: &i32| *status != 0;
        // SAFETY: as above.
        self.call(core, failed, |table, state, core| unsafe { (table.tick)(state, core) })?;
        Ok(())
    }
}
