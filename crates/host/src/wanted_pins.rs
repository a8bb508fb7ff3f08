//! The texts that show who has pinned memory.

use std::fs;

use crate::Capture;
use crate::roots::Roots;
use crate::texts::fields;

/// What a descriptor of an io_uring instance links to.
const IO_URING: &str = "anon_inode:[io_uring]";

/// Takes `status` and `comm` of every process with pins charged to it, and the `fdinfo` of its
/// io_uring instances. Their registered buffers are always charged, so that no other process's
/// descriptors need be checked.
pub(crate) fn read_pins(roots: &Roots, capture: &mut Capture) {
    for pid in roots.list("proc").iter().filter(|name| name.parse::<u32>().is_ok()) {
        let name = format!("proc/{pid}/status");
        let Ok(status) = roots.text(&name) else { continue };
        let sizes = fields::sizes(&name, &status).unwrap_or_default();
        if sizes.get("VmPin").is_none_or(|&bytes| bytes == 0) {
            continue;
        }
        capture.files.insert(name, status);
        let comm = format!("proc/{pid}/comm");
        if let Ok(text) = roots.text(&comm) {
            capture.files.insert(comm, text);
        }
        for descriptor in roots.list(&format!("proc/{pid}/fd")) {
            let link = fs::read_link(roots.path(&format!("proc/{pid}/fd/{descriptor}")));
            let info = format!("proc/{pid}/fdinfo/{descriptor}");
            if link.is_ok_and(|link| link.as_os_str() == IO_URING)
                && let Ok(text) = roots.text(&info)
            {
                capture.files.insert(info, text);
            }
        }
    }
}
