//! How the work was called for, which reports name at their end.

use std::cell::RefCell;
use std::ffi::OsString;

thread_local! {
    static CALLED_AS: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Sets it for the work of this thread.
pub fn set(call: String) {
    CALLED_AS.set(call);
}

/// A call from the command line.
pub fn command_line<'a>(arguments: impl Iterator<Item = &'a OsString>) -> String {
    let words: Vec<_> = arguments.map(|word| word.to_string_lossy()).collect();
    format!("prairie {}", words.join(" "))
}

/// What a report names: the version, and the call.
pub fn generated_by() -> String {
    format!("Prairie {}: {}", env!("CARGO_PKG_VERSION"), CALLED_AS.with_borrow(String::clone))
}
