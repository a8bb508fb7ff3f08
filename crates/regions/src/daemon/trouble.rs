//! What is wrong at present: reported once, and no longer once it is over.

use std::collections::BTreeMap;

use super::Daemon;

/// What may be wrong, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    /// A block is offline: lost memory.
    Offline,
    /// The zones cannot be read.
    Zones,
    /// The list of blocks cannot be read.
    Blocks,
    /// Nothing can be converted.
    Operations,
    /// There is no guardian.
    Guardian,
    /// Settings of the kernel cannot be leased.
    Settings,
    /// No block could become movable.
    Confined,
}

/// All that is wrong, in words.
pub(super) type Troubles = BTreeMap<Topic, String>;

impl Daemon {
    /// Reports what is wrong, once.
    pub(super) fn trouble(&mut self, topic: Topic, what: &str) {
        if self.troubles.get(&topic).is_none_or(|known| known != what) {
            self.log.note("warning", format_args!("{what}"));
            self.troubles.insert(topic, what.to_owned());
            self.show_troubles();
        }
    }

    /// Nothing is wrong with that any more.
    pub(super) fn settled(&mut self, topic: Topic) {
        if self.troubles.remove(&topic).is_some() {
            self.show_troubles();
        }
    }

    /// The status has room for the worst one.
    fn show_troubles(&self) {
        self.status.lock().trouble = self.troubles.values().next().cloned().unwrap_or_default();
    }
}
