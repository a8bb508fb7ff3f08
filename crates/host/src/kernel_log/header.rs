//! The first line of a report, and the lines that name the kernel.

use prairie_frames::KernelVersion;

use super::{Gfp, Incident, IncidentKind, MemoryState, Request};

/// The first line of a report, if `message` is one. `version` is the kernel's, if it is known.
pub fn parse(message: &str, version: Option<KernelVersion>) -> Option<Incident> {
    let (process, kind, rest) = split(message)?;
    let order = number_after(rest, "order:").or_else(|| number_after(rest, "order="));
    let is_vmalloc = matches!(kind, IncidentKind::VmallocFailure { .. });
    let request = Request {
        // vmalloc asks for single pages; some kernels print no order then.
        order: order.or(is_vmalloc.then_some(0))?,
        gfp: gfp(rest, version)?,
        nodemask: field(rest, "nodemask=").filter(|mask| mask != "(null)" && mask != "0"),
        cpuset: field(rest, "cpuset="),
        mems_allowed: list(rest, "mems_allowed="),
    };
    Some(Incident {
        line: 0,
        time: None,
        kind,
        process: process.to_owned(),
        pid: None,
        kernel_release: None,
        request,
        call_trace: Vec::new(),
        slab_cache: None,
        memory: MemoryState::default(),
        cgroup: None,
        victim: None,
        constraint: None,
        tasks: Vec::new(),
    })
}

/// The process, the kind, and the line from its first number on.
fn split(message: &str) -> Option<(&str, IncidentKind, &str)> {
    if let Some((process, rest)) = message.split_once(": page allocation failure: ") {
        return Some((process, IncidentKind::AllocationFailure, rest));
    }
    if let Some((process, rest)) = message.split_once(" invoked oom-killer: ") {
        return Some((process, IncidentKind::OutOfMemory, rest));
    }
    if let Some((process, rest)) = message.split_once(": page allocation stalls for ") {
        let waited_ms = rest.split_once("ms")?.0.parse().ok()?;
        return Some((process, IncidentKind::AllocationStall { waited_ms }, rest));
    }
    // `vmalloc: allocation failure: 8192 bytes`, `… allocated 4096 of 8192 bytes`, and since 5.12
    // `vmalloc error: size 8192, page order 0, failed to allocate pages`.
    let (process, rest) = message
        .split_once(": vmalloc: allocation failure")
        .or(message.split_once(": vmalloc error"))?;
    let (before_bytes, _) = rest.split_once(" bytes").unwrap_or(("", ""));
    let bytes = number_after(rest, "size ");
    let bytes = bytes.or_else(|| before_bytes.rsplit(' ').next()?.parse().ok());
    Some((process, IncidentKind::VmallocFailure { bytes }, rest))
}

/// `mode:0x40cc0(GFP_KERNEL|__GFP_COMP)`, `gfp_mask=0x201da`. Without a number it is no report.
fn gfp(text: &str, version: Option<KernelVersion>) -> Option<Gfp> {
    let at = text.find("mode:").map(|at| at + 5).or(text.find("gfp_mask=").map(|at| at + 9))?;
    let text = text[at..].trim_start();
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    let mask = u64::from_str_radix(&digits[..end], 16).ok()?;
    let names = digits[end..].strip_prefix('(').and_then(|rest| rest.split_once(')'));
    Some(Gfp::new(mask, names.map(|(names, _)| names), version))
}

/// The number after `key`, which does not continue a longer word.
pub(crate) fn number_after<T: std::str::FromStr>(text: &str, key: &str) -> Option<T> {
    let mut from = 0;
    while let Some(at) = text[from..].find(key).map(|at| from + at) {
        let begins_word = !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        from = at + key.len();
        let value = &text[from..];
        let sign = usize::from(value.starts_with('-'));
        let digits =
            value[sign..].find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len() - sign);
        if begins_word && digits > 0 {
            return value[..sign + digits].parse().ok();
        }
    }
    None
}

/// The word after `key`, up to a comma or space.
fn field(text: &str, key: &str) -> Option<String> {
    let (_, rest) = text.split_once(key)?;
    let value = rest.split([',', ' ']).next().unwrap_or_default();
    (!value.is_empty()).then(|| value.to_owned())
}

/// The list of numbers after `key`: `0-1,3`.
pub fn list(text: &str, key: &str) -> Option<String> {
    let (_, rest) = text.split_once(key)?;
    let end =
        rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, ',' | '-'))).unwrap_or(rest.len());
    let value = rest[..end].trim_end_matches(',');
    (!value.is_empty()).then(|| value.to_owned())
}

/// The release in a line that says `Not tainted 6.1.0-13-amd64 #1`, `Tainted: G W 4.19.0-6 #1` or
/// `Linux version 6.1.0 (…)`.
pub fn release(message: &str) -> Option<&str> {
    let rest = ["Not tainted ", "Tainted: ", "Linux version "]
        .iter()
        .find_map(|key| message.split_once(key).map(|(_, rest)| rest))?;
    rest.split_ascii_whitespace().find(|word| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.contains('.')
            && KernelVersion::of_kernel(word).is_some()
    })
}

/// Whether a list of nodes like `0-1,3` names `node`. A malformed list names all.
pub(crate) fn names_node(list: &str, node: u32) -> bool {
    list.split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&node),
            _ => true,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_every_era() {
        let old = parse("swapper/0: page allocation failure: order:4, mode:0x4020", None).unwrap();
        assert_eq!((old.process.as_str(), old.request.order), ("swapper/0", 4));
        assert_eq!(old.request.gfp.text, "GFP_ATOMIC|__GFP_COMP");
        let new = parse(
            "kworker/u8:2: page allocation failure: order:5, \
             mode:0x40dc0(GFP_KERNEL|__GFP_COMP|__GFP_ZERO), nodemask=(null),cpuset=/,mems_allowed=0-1",
            None,
        )
        .unwrap();
        assert_eq!((new.process.as_str(), new.request.order), ("kworker/u8:2", 5));
        assert_eq!(new.request.nodemask, None);
        assert_eq!(new.request.cpuset.as_deref(), Some("/"));
        assert_eq!(new.request.mems_allowed.as_deref(), Some("0-1"));
        let oom = "my app invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=-17";
        let oom = parse(oom, None).unwrap();
        assert_eq!((oom.process.as_str(), oom.kind), ("my app", IncidentKind::OutOfMemory));
        let stall = "x: page allocation stalls for 10004ms, order:0, mode:0x14201ca(GFP_HIGHUSER_MOVABLE|__GFP_COLD), nodemask=(null)";
        let waited_ms = 10004;
        assert_eq!(parse(stall, None).unwrap().kind, IncidentKind::AllocationStall { waited_ms });
        let vmalloc = "x: vmalloc error: size 8192, page order 0, failed to allocate pages, mode:0xcc0(GFP_KERNEL), nodemask=(null)";
        let found = parse(vmalloc, None).unwrap();
        assert_eq!(found.kind, IncidentKind::VmallocFailure { bytes: Some(8192) });
        assert_eq!(found.request.order, 0);
    }

    #[test]
    fn other_lines_are_none() {
        for line in [
            "",
            "page allocation failure",
            "x: page allocation failure: order:x, mode:0x1",
            "x: page allocation failure: order:1",
            "Out of memory: Killed process 12 (x)",
        ] {
            assert!(parse(line, None).is_none(), "{line}");
        }
    }

    #[test]
    fn releases() {
        let line = "CPU: 0 PID: 12 Comm: x Tainted: G    B   W         4.19.0-6-amd64 #1 Debian";
        assert_eq!(release(line), Some("4.19.0-6-amd64"));
        assert_eq!(
            release("CPU: 1 PID: 2 Comm: y Not tainted 3.10.0-514.el7.x86_64 #1"),
            Some("3.10.0-514.el7.x86_64")
        );
        assert_eq!(
            release("Linux version 6.1.0-13-amd64 (debian-kernel) (gcc 12.2.0)"),
            Some("6.1.0-13-amd64")
        );
        assert_eq!(release("Tainted: G W"), None);
        assert!(names_node("0-1,3", 3) && !names_node("0-1,3", 2));
    }
}
