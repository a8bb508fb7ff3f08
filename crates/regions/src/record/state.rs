//! What the lines of a record say: blocks and settings that are not as they were at first.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use crate::choice::Place;
use crate::settings::{Setting, Value};

/// What the lines say so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The boot that it is about.
    pub boot: String,
    /// Blocks that are not where they were at first, and where that was.
    pub blocks: BTreeMap<u64, Place>,
    /// Blocks with an operation under way.
    pub busy: BTreeSet<u64>,
    /// Blocks that reservations of huge pages took from the movable zone.
    pub taken: BTreeSet<u64>,
    /// Settings: what was written, and what was there before.
    pub settings: BTreeMap<Setting, (Value, Value)>,
    /// What was written to a setting the last time but one: it is still there after a crash between
    /// the line and the write.
    pub earlier: BTreeMap<Setting, Value>,
    /// The daemon ended by itself.
    pub ended: bool,
}

impl State {
    /// Takes a line; one that makes no sense (the last one, cut short) is passed over.
    pub fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |word: &str| word.parse::<u64>().ok();
        match words[..] {
            ["boot", boot] => self.boot = boot.to_owned(),
            ["block", block, place] => {
                let place = match place {
                    "kernel" => Place::Kernel,
                    "movable" => Place::Movable,
                    _ => return,
                };
                if let Some(block) = number(block) {
                    self.blocks.entry(block).or_insert(place);
                }
            }
            ["home", block] => drop(number(block).map(|block| self.blocks.remove(&block))),
            ["busy", block] => drop(number(block).map(|block| self.busy.insert(block))),
            ["idle", block] => drop(number(block).map(|block| self.busy.remove(&block))),
            ["taken", block] => drop(number(block).map(|block| self.taken.insert(block))),
            ["given", block] => drop(number(block).map(|block| self.taken.remove(&block))),
            ["set", name, ours, before] => self.set(name, ours, before, None),
            ["set", name, ours, before, earlier] => self.set(name, ours, before, Some(earlier)),
            ["unset", name] => {
                if let Ok(name) = name.parse::<Setting>() {
                    self.settings.remove(&name);
                    self.earlier.remove(&name);
                }
            }
            ["end"] => self.ended = true,
            _ => {}
        }
    }

    fn set(&mut self, name: &str, ours: &str, before: &str, earlier: Option<&str>) {
        if let (Ok(name), Ok(ours), Ok(before)) =
            (name.parse::<Setting>(), ours.parse(), before.parse())
        {
            self.settings.insert(name, (ours, before));
            match earlier.and_then(|earlier| earlier.parse().ok()) {
                Some(earlier) => drop(self.earlier.insert(name, earlier)),
                None => drop(self.earlier.remove(&name)),
            }
        }
    }

    /// What the daemon may have left in a setting: what it wrote last, and what it wrote before that.
    pub fn ours(&self, setting: Setting) -> impl Iterator<Item = &Value> {
        let last = self.settings.get(&setting).map(|(ours, _)| ours);
        last.into_iter().chain(self.earlier.get(&setting))
    }

    /// Reads a record; a missing one says nothing, and neither does one of an earlier boot.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn load(path: &Path, boot: &str) -> io::Result<State> {
        let state = State::read(path, boot)?;
        Ok(State { ended: false, ..state })
    }

    /// Whether the daemon of the record at `path` ended by itself, so that what it left is meant to
    /// stay.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn is_kept(path: &Path, boot: &str) -> io::Result<bool> {
        State::read(path, boot).map(|state| state.ended)
    }

    fn read(path: &Path, boot: &str) -> io::Result<State> {
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        let mut state = State::default();
        String::from_utf8_lossy(&bytes).lines().for_each(|line| state.take(line));
        match state.boot == boot {
            true => Ok(state),
            false => Ok(State { boot: boot.to_owned(), ..State::default() }),
        }
    }

    /// The lines that say the same.
    pub fn lines(&self) -> String {
        let mut text = format!("boot {}\n", self.boot);
        for (block, place) in &self.blocks {
            text += &format!("block {block} {}\n", name(*place));
        }
        for block in &self.busy {
            text += &format!("busy {block}\n");
        }
        for block in &self.taken {
            text += &format!("taken {block}\n");
        }
        for (setting, (ours, before)) in &self.settings {
            let earlier = self.earlier.get(setting).map(|earlier| format!(" {earlier}"));
            let earlier = earlier.unwrap_or_default();
            text += &format!("set {} {ours} {before}{earlier}\n", setting.name());
        }
        text
    }

    /// Whether nothing is left to undo.
    pub fn is_clean(&self) -> bool {
        self.blocks.is_empty() && self.busy.is_empty() && self.settings.is_empty()
    }
}

/// A region, as lines name it.
pub(super) const fn name(place: Place) -> &'static str {
    match place {
        Place::Movable => "movable",
        _ => "kernel",
    }
}
