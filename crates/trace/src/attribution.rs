//! Kernel call chains to sources, by the table `attribution.toml`.

use std::sync::OnceLock;

use serde::Deserialize;

/// The source of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attribution {
    /// The source; `None` if no function of the chain is in the table.
    pub source: Option<&'static str>,
    /// For a source that hands memory on (slab, vmalloc, per-CPU): on whose behalf, where known.
    pub behalf: Option<&'static str>,
}

impl Attribution {
    /// Attributes a folded stack: functions joined by `;`, outermost first.
    ///
    /// The innermost function that the table knows decides; see the table for the whole rule.
    /// Linear in the stack's length times the table's.
    pub fn of(folded: &str) -> Attribution {
        let mut known = folded.rsplit(';').filter_map(|function| table().source(function));
        let first = known.next();
        let behalf = first.filter(|s| s.carrier).and_then(|_| known.find(|s| !s.carrier));
        Attribution {
            source: first.map(|s| s.name.as_str()),
            behalf: behalf.map(|s| s.name.as_str()),
        }
    }
}

/// The table, parsed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    source: Vec<Source>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    name: String,
    #[serde(default)]
    functions: Vec<String>,
    #[serde(default)]
    modules: Vec<String>,
    #[serde(default)]
    carrier: bool,
}

/// The embedded table. Its being well-formed is a matter of this crate's tests.
fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        toml::from_str(include_str!("attribution.toml")).expect("the embedded table is well-formed")
    })
}

impl Table {
    /// The first source that knows a function, given as `name` or `name [module]`.
    fn source(&self, function: &str) -> Option<&Source> {
        let (name, module) = match function.split_once(" [") {
            Some((name, module)) => (name, module.strip_suffix(']')),
            None => (function, None),
        };
        let name = plain(name);
        let any = |patterns: &[String], text: &str| patterns.iter().any(|p| matches(p, text));
        self.source.iter().find(|source| {
            any(&source.functions, name) || module.is_some_and(|m| any(&source.modules, m))
        })
    }
}

/// A function's name without what compilers and newer kernels append.
fn plain(name: &str) -> &str {
    let name = name.split_once('.').map_or(name, |(before, _)| before);
    name.strip_suffix("_noprof").unwrap_or(name)
}

/// Whether `text` is `pattern`, in which `*` matches any characters and `?` any one.
/// Names are short; the worst case, quadratic, does not matter.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go on if the match fails: after the last star, one character later.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((after_star, from)) = retry else { return false };
                retry = Some((after_star, from + 1));
                (p, t) = (after_star, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("a", "", false),
            ("*", "", true),
            ("tcp_*", "tcp_sendmsg", true),
            ("tcp_*", "__tcp_send", false),
            ("*_skb", "alloc_rx_skb", true),
            ("a*b*c", "a_b_b_c", true),
            ("a*b*c", "a_b_b_", false),
            ("p?d", "pmd", true),
            ("p?d", "pd", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    proptest::proptest! {
        /// Against the plain recursive definition.
        #[test]
        fn matching_is_as_defined(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            fn defined(p: &[u8], t: &[u8]) -> bool {
                match (p.first(), t.first()) {
                    (None, None) => true,
                    (Some(b'*'), _) => {
                        defined(&p[1..], t) || (!t.is_empty() && defined(p, &t[1..]))
                    }
                    (Some(&c), Some(&d)) if c == b'?' || c == d => defined(&p[1..], &t[1..]),
                    _ => false,
                }
            }
            let expected = defined(pattern.as_bytes(), text.as_bytes());
            proptest::prop_assert_eq!(matches(&pattern, &text), expected);
        }
    }

    /// Chains recorded on Linux 6.18, shortened in the middle of what does not matter.
    #[test]
    fn recorded_chains() {
        for (folded, source, behalf) in [
            (
                "entry_SYSCALL_64_after_hwframe;do_syscall_64;__x64_sys_openat;path_openat;ext4_create;\
              new_inode;alloc_inode;ext4_alloc_inode;kmem_cache_alloc_lru_noprof;\
              __slab_alloc.isra.0;___slab_alloc;allocate_slab;alloc_pages_mpol;\
              __alloc_frozen_pages_noprof",
                Some("slab"),
                Some("file system"),
            ),
            (
                "asm_exc_page_fault;exc_page_fault;handle_mm_fault;__handle_mm_fault;do_fault;\
              pte_alloc_one;alloc_pages_noprof;alloc_pages_mpol;__alloc_frozen_pages_noprof",
                Some("page tables"),
                None,
            ),
            (
                "do_syscall_64;ksys_write;vfs_write;anon_pipe_write;alloc_pages_noprof;\
              alloc_pages_mpol;__alloc_frozen_pages_noprof",
                Some("pipes"),
                None,
            ),
            (
                "do_syscall_64;__x64_sys_madvise;unmap_page_range;__tlb_remove_folio_pages;\
              tlb_next_batch;get_free_pages_noprof;alloc_pages_noprof",
                Some("TLB gathering"),
                None,
            ),
            ("ret_from_fork_asm;probe [some_driver];alloc_pages_noprof", Some("drivers"), None),
            (
                "ret_from_fork_asm;virtnet_poll [virtio_net];alloc_pages_noprof",
                Some("network"),
                None,
            ),
            ("ret_from_fork_asm;0xffffffffc0000000;alloc_pages_noprof", None, None),
            ("", None, None),
        ] {
            let found = Attribution::of(folded);
            assert_eq!((found.source, found.behalf), (source, behalf), "{folded}");
        }
    }

    #[test]
    fn no_pattern_is_hidden_by_the_same_one_before_it() {
        let mut seen = std::collections::BTreeMap::new();
        for source in &table().source {
            assert!(!source.functions.is_empty(), "{} has no functions", source.name);
            for pattern in &source.functions {
                let before = seen.insert(pattern, &source.name);
                assert_eq!(before, None, "{pattern} of {} is taken", source.name);
            }
        }
    }
}
