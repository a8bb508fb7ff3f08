//! `/proc/slabinfo`: the caches of the slab allocator (`cache_show`, `mm/slab_common.c`), version
//! 2.1. Only root may read it.

use super::lines;
use crate::error::ParseError;

/// The file, as a capture names it.
pub const FILE: &str = "proc/slabinfo";

/// One cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabCache {
    /// Its name: `dentry`, `kmalloc-64`.
    pub name: String,
    /// Objects in use.
    pub active_objects: u64,
    /// Objects for which there is memory.
    pub objects: u64,
    /// Size of an object in bytes.
    pub object_bytes: u64,
    /// Slabs that hold the objects.
    pub slabs: u64,
    /// Frames of a slab.
    pub pages_per_slab: u64,
}

/// Parses the whole file: one cache a line, after two lines that name version and columns.
///
/// # Errors
/// [`ParseError`] where a line is not a name, five numbers, and after `slabdata` three numbers.
pub fn parse(text: &str) -> Result<Vec<SlabCache>, ParseError> {
    let expected = "a cache: its name, five numbers, and three numbers after \"slabdata\"";
    let is_cache = |text: &str| !text.starts_with('#') && !text.starts_with("slabinfo - version");
    lines(FILE, text)
        .filter(|line| is_cache(line.text))
        .map(|line| {
            let (objects, slabs) =
                line.text.split_once(": slabdata").ok_or_else(|| line.error(expected))?;
            let (objects, _) = objects.split_once(':').ok_or_else(|| line.error(expected))?;
            parse_cache(objects, slabs).ok_or_else(|| line.error(expected))
        })
        .collect()
}

fn parse_cache(objects: &str, slabs: &str) -> Option<SlabCache> {
    let words: Vec<&str> = objects.split_ascii_whitespace().collect();
    let (name, numbers) = words.split_at_checked(words.len().checked_sub(5)?)?;
    let numbers: Vec<u64> = numbers.iter().map_while(|word| word.parse().ok()).collect();
    let &[active_objects, objects, object_bytes, _, pages_per_slab] = &numbers[..] else {
        return None;
    };
    let mut slabs = slabs.trim_start_matches(':').split_ascii_whitespace();
    let slabs = slabs.nth(1)?.parse().ok()?;
    let name = name.join(" ");
    (!name.is_empty()).then_some(SlabCache {
        name,
        active_objects,
        objects,
        object_bytes,
        slabs,
        pages_per_slab,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn caches_with_their_slabs() {
        let text = "slabinfo - version: 2.1\n\
            # name <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables \
            <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>\n\
            dentry  21039 21588 192 21 1 : tunables 0 0 0 : slabdata 1028 1030 0\n\
            odd name 1 2 64 64 2 : tunables 0 0 0 : slabdata 1 3 0\n";
        let caches = parse(text).unwrap();
        assert_eq!(caches.len(), 2);
        let dentry = SlabCache {
            name: "dentry".into(),
            active_objects: 21_039,
            objects: 21_588,
            object_bytes: 192,
            slabs: 1030,
            pages_per_slab: 1,
        };
        assert_eq!(caches[0], dentry);
        assert_eq!((caches[1].name.as_str(), caches[1].slabs), ("odd name", 3));
    }

    #[test]
    fn errors_say_where() {
        for bad in [
            "dentry 1 2 3 4 5",
            "dentry 1 2 3 4 : tunables 0 0 0 : slabdata 1 1 0",
            "dentry 1 2 3 4 x : tunables 0 0 0 : slabdata 1 1 0",
            "dentry 1 2 3 4 5 : tunables 0 0 0 : slabdata 1",
            ": tunables : slabdata 1 2 3",
        ] {
            let error = parse(&format!("slabinfo - version: 2.1\n{bad}\n")).unwrap_err();
            assert_eq!((error.file.as_str(), error.line), (FILE, 2), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn garbage_does_not_panic(text in "(dentry|[0-9 :#]|: slabdata|\n|.){0,60}") {
            let _ = parse(&text);
        }
    }
}
