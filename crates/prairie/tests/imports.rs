//! No file of a crate imports, directly or through others, a file that imports it.
//!
//! The test scans every file below `crates/*/src` that its crate compiles into its library or a
//! program, without `#[cfg(test)]` items. A file imports another if it names something of that file's module in a path that begins
//! with `crate::`, `self::`, `super::`, or the name of a child module, in a `use` or in code. Such a
//! path is followed through re-exports to the file that defines the item. These do not count:
//!
//! - declaring a child module (`mod x;`) and re-exporting from one (`pub use x::Item;`);
//! - imports between a module and the modules below it: `machine.rs` and `machine/*.rs` are one unit
//!   whose parts may be `impl` blocks of one type. Imports among the parts do count.
#![allow(missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose files must not import from another folder: views do not depend on the commands that
/// show them, and the heap's layers only on those below.
const FORBIDDEN: &[(&str, &str)] = &[
    ("prairie/src/view", "prairie/src/commands"),
    ("heap/src/front", "heap/src/process"),
    ("heap/src/page_heap", "heap/src/process"),
    ("heap/src/page_heap", "heap/src/front"),
    ("heap/src/memory", "heap/src/page_heap"),
    ("heap/src/storage", "heap/src/memory"),
];

type Modules = BTreeMap<Vec<String>, Module>;

/// A module, in a file of its own or inline.
#[derive(Debug, Default)]
struct Module {
    file: PathBuf,
    /// Names that a `pub use` gives to items of other modules, and their paths there.
    reexports: BTreeMap<String, Vec<String>>,
    /// Paths that the module names, as written.
    paths: Vec<Vec<String>>,
}

#[test]
fn no_file_imports_one_that_imports_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut report = String::new();
    let mut folders: Vec<_> = fs::read_dir(crates).unwrap().map(|e| e.unwrap().path()).collect();
    folders.sort();
    for folder in folders {
        for root in roots(&folder) {
            let edges = edges(&modules(&root));
            report += &forbidden(&edges, crates);
            for cycle in cycles(&edges) {
                report += &describe(&cycle, &edges, crates);
            }
        }
    }
    assert!(report.is_empty(), "import cycles and forbidden imports:\n{report}");
}

/// The roots of a crate's library and programs.
fn roots(folder: &Path) -> Vec<PathBuf> {
    let mut roots = vec![folder.join("src/lib.rs"), folder.join("src/main.rs")];
    for entry in fs::read_dir(folder.join("src/bin")).into_iter().flatten() {
        let path = entry.unwrap().path();
        roots.push(if path.is_dir() { path.join("main.rs") } else { path });
    }
    roots.retain(|root| root.exists());
    roots
}

fn forbidden(edges: &Edges, crates: &Path) -> String {
    let mut text = String::new();
    for (from, others) in edges {
        for (to, path) in others {
            let is_forbidden = |(above, below): &(&str, &str)| {
                from.starts_with(crates.join(above)) && to.starts_with(crates.join(below))
            };
            if FORBIDDEN.iter().any(is_forbidden) {
                text += &format!("  {} imports {path}\n", from.display());
            }
        }
    }
    text
}

fn describe(cycle: &[PathBuf], edges: &Edges, crates: &Path) -> String {
    let short = |file: &Path| file.strip_prefix(crates).unwrap().display().to_string();
    let mut text = String::new();
    for file in cycle {
        for (to, path) in edges[file].iter().filter(|(to, _)| cycle.contains(to)) {
            text += &format!("  {} imports {} ({path})\n", short(file), short(to));
        }
    }
    text + "\n"
}

/// For each file the files that it imports, and a path that does.
type Edges = BTreeMap<PathBuf, BTreeMap<PathBuf, String>>;

fn edges(modules: &Modules) -> Edges {
    let mut edges = Edges::new();
    for (at, module) in modules {
        let from = edges.entry(module.file.clone()).or_default();
        for path in &module.paths {
            let Some(target) = absolute(modules, at, path).and_then(|p| define(modules, p)) else {
                continue;
            };
            if target != module.file
                && !is_below(&target, &module.file)
                && !is_below(&module.file, &target)
            {
                from.entry(target).or_insert_with(|| path.join("::"));
            }
        }
    }
    edges
}

/// Whether a file is that of a module below another file's module. A crate's root is no unit.
fn is_below(file: &Path, above: &Path) -> bool {
    match above.file_name().and_then(|name| name.to_str()) {
        Some("lib.rs" | "main.rs") => false,
        Some("mod.rs") => file.starts_with(above.parent().unwrap()),
        _ => file.starts_with(above.with_extension("")),
    }
}

/// The path from the crate's root, if it leads into this crate.
fn absolute(modules: &Modules, at: &[String], path: &[String]) -> Option<Vec<String>> {
    let mut full = at.to_vec();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => full.clear(),
        "self" => {}
        "super" => return absolute_super(at, path),
        child => {
            full.push(child.to_owned());
            return modules.contains_key(&full).then(|| [at, path].concat());
        }
    }
    rest = &rest[1..];
    full.extend_from_slice(rest);
    Some(full)
}

fn absolute_super(at: &[String], path: &[String]) -> Option<Vec<String>> {
    let ups = path.iter().take_while(|word| *word == "super").count();
    let base = at.get(..at.len().checked_sub(ups)?)?;
    Some([base, &path[ups..]].concat())
}

/// The file of the module that defines what the path names.
fn define(modules: &Modules, mut path: Vec<String>) -> Option<PathBuf> {
    for _ in 0..8 {
        let depth = (0..=path.len()).rev().find(|n| modules.contains_key(&path[..*n]))?;
        let module = &modules[&path[..depth]];
        let Some(target) = path.get(depth).and_then(|name| module.reexports.get(name)) else {
            return Some(module.file.clone());
        };
        let Some(target) = absolute(modules, &path[..depth], target) else {
            return Some(module.file.clone());
        };
        path = [target, path[depth + 1..].to_vec()].concat();
    }
    None
}

/// Strongly connected components of two files and more.
fn cycles(edges: &Edges) -> Vec<Vec<PathBuf>> {
    let reached: BTreeMap<_, _> = edges.keys().map(|file| (file, reach(edges, file))).collect();
    let mut cycles = BTreeSet::new();
    for (file, others) in &reached {
        if others.contains(file) {
            let both = others.iter().filter(|other| reached[**other].contains(file));
            cycles.insert(both.map(|file| (*file).clone()).collect::<Vec<_>>());
        }
    }
    cycles.into_iter().collect()
}

/// The files that a file imports, directly or through others.
fn reach<'a>(edges: &'a Edges, from: &'a PathBuf) -> BTreeSet<&'a PathBuf> {
    let (mut seen, mut todo) = (BTreeSet::new(), vec![from]);
    while let Some(file) = todo.pop() {
        let next = edges.get(file).into_iter().flat_map(BTreeMap::keys);
        todo.extend(next.filter(|file| seen.insert(*file)));
    }
    seen
}

fn modules(root: &Path) -> Modules {
    let mut modules = Modules::new();
    load(&mut modules, Vec::new(), root, root.parent().unwrap());
    modules
}

/// Reads a file and the files of its modules, which are in `folder`.
fn load(modules: &mut Modules, at: Vec<String>, file: &Path, folder: &Path) {
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let tokens = tokens(&text);
    let mut reader = Reader { tokens: &tokens, next: 0, file, modules, children: Vec::new() };
    reader.items(at, folder.to_owned());
    for (at, folder) in reader.children {
        let name = at.last().unwrap();
        let flat = folder.join(format!("{name}.rs"));
        let nested = folder.join(name);
        if flat.exists() {
            load(modules, at, &flat, &nested);
        } else {
            load(modules, at, &nested.join("mod.rs"), &nested);
        }
    }
}

struct Reader<'a> {
    tokens: &'a [String],
    next: usize,
    file: &'a Path,
    modules: &'a mut Modules,
    /// Modules in other files: their paths, and the folders of these files.
    children: Vec<(Vec<String>, PathBuf)>,
}

impl Reader<'_> {
    fn token(&self, ahead: usize) -> &str {
        self.tokens.get(self.next + ahead).map_or("", String::as_str)
    }

    /// Reads to the end of the file, or of the braces.
    fn items(&mut self, at: Vec<String>, folder: PathBuf) {
        let module = Module { file: self.file.to_owned(), ..Module::default() };
        self.modules.insert(at.clone(), module);
        let mut depth = 0;
        while self.next < self.tokens.len() {
            match self.token(0) {
                "{" => depth += 1,
                "}" if depth == 0 => return,
                "}" => depth -= 1,
                "#" if self.is_test_only() => {
                    self.skip_item();
                    continue;
                }
                "mod" if self.token(2) == ";" => {
                    let child = [&at[..], &[self.token(1).to_owned()]].concat();
                    self.children.push((child, folder.clone()));
                    self.next += 2;
                }
                "mod" if self.token(2) == "{" => {
                    let name = self.token(1).to_owned();
                    self.next += 3;
                    self.items([&at[..], std::slice::from_ref(&name)].concat(), folder.join(name));
                }
                "use" => {
                    let is_public = matches!(self.previous(), "pub" | ")");
                    self.next += 1;
                    let mut paths = Vec::new();
                    self.tree(Vec::new(), &mut paths);
                    let module = self.modules.get_mut(&at).unwrap();
                    for (path, name) in paths {
                        if is_public {
                            module.reexports.insert(name, path);
                        } else {
                            module.paths.push(path);
                        }
                    }
                    continue;
                }
                _ if self.token(1) == "::" && !matches!(self.previous(), "::" | ".") => {
                    let path = self.path();
                    self.modules.get_mut(&at).unwrap().paths.push(path);
                    continue;
                }
                _ => {}
            }
            self.next += 1;
        }
    }

    fn previous(&self) -> &str {
        self.next.checked_sub(1).map_or("", |at| &self.tokens[at])
    }

    fn path(&mut self) -> Vec<String> {
        let mut path = vec![self.token(0).to_owned()];
        while self.token(1) == "::" && is_word(self.token(2)) {
            path.push(self.token(2).to_owned());
            self.next += 2;
        }
        self.next += 1;
        path
    }

    /// A tree of a `use`: each path with the name that it gets.
    fn tree(&mut self, prefix: Vec<String>, paths: &mut Vec<(Vec<String>, String)>) {
        let mut path = prefix;
        loop {
            match self.token(0) {
                "{" => {
                    self.next += 1;
                    while self.token(0) != "}" {
                        self.tree(path.clone(), paths);
                        if self.token(0) == "," {
                            self.next += 1;
                        }
                    }
                    self.next += 1;
                    return;
                }
                "::" => self.next += 1,
                "as" => {
                    paths.push((path, self.token(1).to_owned()));
                    self.next += 2;
                    return;
                }
                "self" if !path.is_empty() => self.next += 1,
                word if is_word(word) || word == "*" => {
                    path.push(word.to_owned());
                    self.next += 1;
                }
                _ => {
                    let name = path.last().cloned().unwrap_or_default();
                    paths.push((path, name));
                    return;
                }
            }
        }
    }

    /// Whether `#[cfg(test)]` or `#[cfg(all(test, …))]` comes next.
    fn is_test_only(&self) -> bool {
        let words: Vec<&str> = (1..7).map(|ahead| self.token(ahead)).collect();
        words[..4] == ["[", "cfg", "(", "test"] || words == ["[", "cfg", "(", "all", "(", "test"]
    }

    /// Passes over attributes and an item, to its semicolon or the end of its braces.
    fn skip_item(&mut self) {
        let mut depth = 0;
        while self.next < self.tokens.len() {
            let token = self.token(0).to_owned();
            self.next += 1;
            match token.as_str() {
                "{" | "[" | "(" => depth += 1,
                "]" | ")" => depth -= 1,
                "}" => {
                    depth -= 1;
                    if depth == 0 {
                        return;
                    }
                }
                ";" if depth == 0 => return,
                _ => {}
            }
        }
    }
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Words and marks of Rust source, without comments, literals and lifetimes.
fn tokens(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let (mut at, mut tokens) = (0, Vec::new());
    while at < bytes.len() {
        let rest = &text[at..];
        let here = rest.chars().next().unwrap();
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            at += rest.find("*/").map_or(rest.len(), |end| end + 2);
        } else if let Some(length) = literal(rest) {
            at += length;
            tokens.push("\"\"".to_owned());
        } else if rest.starts_with("::") {
            at += 2;
            tokens.push("::".to_owned());
        } else if is_word(rest) {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            at += end;
            tokens.push(rest[..end].to_owned());
        } else {
            at += here.len_utf8();
            if !here.is_whitespace() {
                tokens.push(here.to_string());
            }
        }
    }
    tokens
}

/// The length of a string, a character or a lifetime at the start of the text.
fn literal(text: &str) -> Option<usize> {
    let plain = text.trim_start_matches(['b', 'c']);
    let prefix = text.len() - plain.len();
    if prefix > 1 {
        return None;
    }
    if let Some(raw) = plain.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let end = format!("\"{}", &raw[..hashes]);
        let body = raw[hashes..].strip_prefix('"')?;
        return Some(prefix + 1 + hashes + 1 + body.find(&end)? + end.len());
    }
    let quote = plain.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let body = &plain[1..];
    if quote == '\'' && !body.starts_with('\\') {
        let mut chars = body.chars();
        let first = chars.next()?;
        if chars.next() != Some('\'') {
            let end = body.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(body.len());
            return Some(prefix + 1 + end);
        }
        return Some(prefix + 2 + first.len_utf8());
    }
    let mut escaped = false;
    for (at, byte) in body.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            _ if byte == quote as u8 => return Some(prefix + 1 + at + 1),
            _ => {}
        }
    }
    None
}

#[test]
fn a_cycle_is_found_and_a_reexport_is_none() {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("lib.rs", "pub mod a; mod b; mod c; pub use b::Item; // use a::X;\n");
    write("a.rs", "mod inner; fn f<'a>(_: &'a str) -> char { let _ = \"crate::c::X\"; 'x' }");
    write("a/inner.rs", "use crate::{Item, a};\n#[cfg(test)]\nmod tests { use crate::c::Far; }");
    write("b.rs", "pub struct Item; impl Item { fn far() { crate::c::far() } }");
    write("c.rs", "pub fn far() {}");
    let found = |root: &Path| cycles(&edges(&modules(&root.join("lib.rs"))));
    assert_eq!(found(root.path()), Vec::<Vec<PathBuf>>::new());
    // Through a re-export and a path in code.
    write("c.rs", "use super::Item; pub fn far() {}");
    assert_eq!(found(root.path()), [["b.rs", "c.rs"].map(|name| root.path().join(name))]);
    write("c.rs", "pub fn far() {}");
    // A module and one below it are one unit, but not two of its parts.
    write("a.rs", "mod inner; mod other; use inner::Y;");
    write("a/inner.rs", "use super::Z;");
    write("a/other.rs", "use super::inner::Y;");
    assert_eq!(found(root.path()), Vec::<Vec<PathBuf>>::new());
    write("a/inner.rs", "use super::other::W;");
    let names = ["a/inner.rs", "a/other.rs"].map(|name| root.path().join(name));
    assert_eq!(found(root.path()), [names]);
}
