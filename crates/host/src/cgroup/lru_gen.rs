//! MGLRU's generations: `/sys/kernel/debug/lru_gen` (`lru_gen_seq_show`, `mm/vmscan.c`).
//!
//! For each memory cgroup and node there are up to four generations, each with the time since it
//! began and the pages in it. A page moves to the youngest when aging finds it accessed. So the
//! pages of a generation have not been seen accessed since the *next* one began.

use serde::Serialize;

use crate::error::ParseError;
use crate::texts::{Line, lines};

/// The file, as errors name it.
pub const FILE: &str = "sys/kernel/debug/lru_gen";

/// Generations that a kernel keeps at most (`MAX_NR_GENS`).
pub(crate) const MAX_GENERATIONS: usize = 4;

/// One generation of one cgroup on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Generation {
    /// Its number; the highest is the youngest.
    pub sequence: u64,
    /// Milliseconds since it began.
    pub age_ms: u64,
    /// Anonymous pages in it.
    pub anon_pages: u64,
    /// Pages of the page cache in it.
    pub file_pages: u64,
}

/// The generations of one cgroup on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The kernel's number of the cgroup, which commands name.
    pub memcg: u64,
    /// The NUMA node.
    pub node: u32,
    generations: [Generation; MAX_GENERATIONS],
    len: usize,
}

impl Node {
    /// Its generations, oldest first.
    pub fn generations(&self) -> &[Generation] {
        &self.generations[..self.len]
    }

    /// The youngest generation, where there is any.
    pub fn youngest(&self) -> Option<&Generation> {
        self.generations().last()
    }

    /// Generations, oldest first, whose pages have all been idle for at least `idle_ms`. The two
    /// youngest are never among them: the kernel keeps those from eviction (`MIN_NR_GENS`).
    pub fn idle(&self, idle_ms: u64) -> &[Generation] {
        let evictable = self.len.saturating_sub(2);
        let is_idle = |at: &usize| self.generations[at + 1].age_ms >= idle_ms;
        let idle = (0..evictable).take_while(is_idle).count();
        &self.generations[..idle]
    }
}

/// Parses the whole file and hands each cgroup's path (`/` for the root) and node to `sink`.
/// Allocates only for an error.
///
/// # Errors
/// [`ParseError`] where a line is neither `memcg ID PATH`, `node N` nor a generation's four
/// numbers (pages that the kernel shows as negative for a moment count as 0), where generations
/// do not ascend, or where there are more than four.
pub fn parse<'a>(text: &'a str, sink: &mut dyn FnMut(&'a str, &Node)) -> Result<(), ParseError> {
    let mut memcg: Option<(u64, &str)> = None;
    let mut node: Option<Node> = None;
    for line in lines(FILE, text) {
        let words = line.text.trim();
        if let Some(rest) = words.strip_prefix("memcg") {
            flush(memcg, &mut node, sink);
            memcg = Some(heading(line, rest)?);
        } else if let Some(rest) = words.strip_prefix("node") {
            flush(memcg, &mut node, sink);
            let Some((id, _)) = memcg else { return Err(line.error("\"memcg ID PATH\" before")) };
            let number = line.number(rest.trim(), "\"node N\"")?;
            let generations = [Generation::default(); MAX_GENERATIONS];
            node = Some(Node { memcg: id, node: number, generations, len: 0 });
        } else {
            let node = node.as_mut().ok_or_else(|| line.error("\"node N\" before"))?;
            push(line, node)?;
        }
    }
    flush(memcg, &mut node, sink);
    Ok(())
}

fn flush<'a>(
    memcg: Option<(u64, &'a str)>,
    node: &mut Option<Node>,
    sink: &mut dyn FnMut(&'a str, &Node),
) {
    if let (Some((_, path)), Some(node)) = (memcg, node.take()) {
        sink(path, &node);
    }
}

/// `memcg    14 /system.slice/x`. Some kernels omit the path.
fn heading<'a>(line: Line<'_>, rest: &'a str) -> Result<(u64, &'a str), ParseError> {
    let rest = rest.trim();
    let (id, path) = rest.split_once(' ').unwrap_or((rest, ""));
    Ok((line.number(id, "\"memcg ID PATH\"")?, path.trim_start()))
}

fn push(line: Line<'_>, node: &mut Node) -> Result<(), ParseError> {
    const FORM: &str = "a generation's number, age in ms, anonymous pages and file pages";
    let mut words = line.text.split_ascii_whitespace();
    let mut next = || words.next().ok_or_else(|| line.error(FORM));
    let (sequence, age_ms) = (line.number(next()?, FORM)?, line.number(next()?, FORM)?);
    let pages = |word: &str| match word.strip_suffix('x').unwrap_or(word).strip_prefix('-') {
        Some(negative) => line.number::<u64>(negative, FORM).map(|_| 0),
        None => line.number(word.strip_suffix('x').unwrap_or(word), FORM),
    };
    let generation =
        Generation { sequence, age_ms, anon_pages: pages(next()?)?, file_pages: pages(next()?)? };
    if generation.anon_pages.max(generation.file_pages) > 1 << 40 {
        return Err(line.error("fewer pages than any machine has (2^40)"));
    }
    if node.youngest().is_some_and(|younger| younger.sequence >= sequence) {
        return Err(line.error("generations in ascending order"));
    }
    let slot = node.generations.get_mut(node.len);
    *slot.ok_or_else(|| line.error("at most 4 generations"))? = generation;
    node.len += 1;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
memcg     1 /
 node     0
          0     140213          0        6452\n\
\x20         1     140213          3           0\n\
memcg    14 /w
 node     0
          5     180250      65606           0
          6     120100          0           0
          7      60050      49211          12
          8         10          4           0
";

    fn nodes(text: &str) -> Result<Vec<(String, Node)>, ParseError> {
        let mut found = Vec::new();
        parse(text, &mut |path, node| found.push((path.to_owned(), *node)))?;
        Ok(found)
    }

    #[test]
    fn generations_by_cgroup_and_node() {
        let nodes = nodes(TEXT).unwrap();
        assert_eq!(nodes.len(), 2);
        let (path, root) = &nodes[0];
        assert_eq!((path.as_str(), root.memcg, root.generations().len()), ("/", 1, 2));
        let (path, w) = &nodes[1];
        assert_eq!((path.as_str(), w.memcg, w.node), ("/w", 14, 0));
        assert_eq!(w.generations()[0].anon_pages, 65_606);
        assert_eq!(w.youngest().unwrap().sequence, 8);
    }

    #[test]
    fn pages_are_idle_since_the_next_generation_began() {
        let nodes = nodes(TEXT).unwrap();
        let w = &nodes[1].1;
        assert_eq!(w.idle(120_100).len(), 1, "generation 5 since 6 began");
        assert_eq!(w.idle(120_101).len(), 0);
        assert_eq!(w.idle(60_000).len(), 2);
        assert_eq!(w.idle(0).len(), 2, "the two youngest stay");
        assert_eq!(nodes[0].1.idle(0).len(), 0);
    }

    #[test]
    fn errors_say_where_and_what() {
        let error = nodes(&TEXT.replace("65606", "many")).unwrap_err();
        assert_eq!((error.file.as_str(), error.line), (FILE, 7));
        for bad in [
            " 0 1 2 3\n",
            "memcg 1 /\n 0 1 2 3\n",
            " node 0\n",
            "memcg x /\n",
            "memcg 1 /\n node x\n",
            "memcg 1 /\n node 0\n 1 2 3\n",
            "memcg 1 /\n node 0\n 2 1 1 1\n 2 1 1 1\n",
            "memcg 1 /\n node 0\n 0 1 1 1\n 1 1 1 1\n 2 1 1 1\n 3 1 1 1\n 4 1 1 1\n",
            "memcg 1 /\n node 0\n 0 1 18446744073709551615 1\n",
        ] {
            assert!(nodes(bad).is_err(), "{bad:?}");
        }
        assert_eq!(nodes("memcg 1 /\n node 0\n 0 1 -3 4\n").unwrap()[0].1.idle(0).len(), 0);
    }
}
