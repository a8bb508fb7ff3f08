//! The record: what has to be undone if the daemon ends by whatever death.
//!
//! Before anything is changed, a line goes into a file and into the pipe of the guardian:
//!
//! ```text
//! boot 5f0c…            the boot that it is about
//! block 17 kernel       block 17 was in the kernel region at first
//! home 17               it is back there
//! busy 17               an operation on it begins; it may be offline
//! idle 17               the operation ended
//! taken 17              a reservation took block 17 from the movable zone
//! given 17              it is back there
//! set min_free_kbytes 67584 22528      what is written, and what was there before
//! set min_free_kbytes 70000 22528 67584        and what was written the last time
//! unset min_free_kbytes
//! end                   the daemon ended by itself
//! ```

mod guard;
mod state;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use prairie_host::Roots;

use crate::choice::Place;
use crate::settings::{Setting, Value};
use guard::Guardian;
use state::name;

pub use state::State;

/// The kernel's name for this boot.
pub fn boot_id(roots: &Roots) -> String {
    let read = fs::read_to_string(roots.proc.join("sys/kernel/random/boot_id"));
    let id = read.unwrap_or_default();
    if id.trim().is_empty() { "unknown".to_owned() } else { id.trim().to_owned() }
}

/// The record that is kept: its state, its file, and the guardian.
#[derive(Debug)]
pub struct Record {
    state: State,
    path: PathBuf,
    file: Option<File>,
    guardian: Option<Guardian>,
    bytes: u64,
    /// The file says something else than the state: it is written again from there.
    is_stale: bool,
}

/// A file of more than this is written again from the state.
const MAX_BYTES: u64 = 64 << 10;

impl Record {
    /// Opens the record at `path`; its state is what an earlier daemon left. Nothing is written.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn load(path: &Path, boot: &str) -> io::Result<Record> {
        let state = State::load(path, boot)?;
        Ok(Record {
            state,
            path: path.to_owned(),
            file: None,
            guardian: None,
            bytes: 0,
            is_stale: false,
        })
    }

    /// Begins to write it.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn begin(&mut self) -> io::Result<()> {
        if let Some(parent) = self.path.parent() {
            fs::create_dir_all(parent)?;
        }
        // Written to a second file first: a process that is killed here leaves the old record
        // intact.
        let beside = self.path.with_extension("new");
        let text = self.state.lines();
        fs::write(&beside, &text)?;
        fs::rename(&beside, &self.path)?;
        self.file = Some(File::options().append(true).open(&self.path)?);
        (self.bytes, self.is_stale) = (text.len() as u64, false);
        Ok(())
    }

    /// Starts the guardian, `program arguments…` with the pipe as its standard input.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn guard(&mut self, program: &Path, arguments: &[&str]) -> io::Result<()> {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        self.guardian = Some(Guardian::start(program, &arguments, &self.state)?);
        Ok(())
    }

    /// Starts another guardian if the one that was started is gone; whether it did.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn renew_guardian(&mut self) -> io::Result<bool> {
        let Some(guardian) = &mut self.guardian else { return Ok(false) };
        if !guardian.is_gone() {
            return Ok(false);
        }
        guardian.replace(&self.state).map(|()| true)
    }

    /// What it says.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// An operation on a block begins, which is in `from`.
    ///
    /// # Errors
    /// I/O errors of the system: without a record the operation must not begin.
    pub fn busy(&mut self, block: u64, from: Place) -> io::Result<()> {
        if matches!(from, Place::Kernel | Place::Movable) && !self.state.blocks.contains_key(&block)
        {
            self.announce(&format!("block {block} {}", name(from)))?;
        }
        self.announce(&format!("busy {block}"))
    }

    /// The operation ended, and the block is in `place` (nothing if it is gone).
    ///
    /// # Errors
    /// I/O errors of the system. The state is right all the same, and written later.
    pub fn idle(&mut self, block: u64, place: Option<Place>) -> io::Result<()> {
        let home = self.state.blocks.get(&block).copied();
        let is_home = place.is_none() || (home.is_some() && home == place);
        let home = if is_home { self.note(&format!("home {block}")) } else { Ok(()) };
        let is_given = place != Some(Place::Kernel) && self.state.taken.contains(&block);
        let given = if is_given { self.note(&format!("given {block}")) } else { Ok(()) };
        self.note(&format!("idle {block}")).and(home).and(given)
    }

    /// A reservation of huge pages took the block from the movable zone, to which it returns when its
    /// pages are freed.
    ///
    /// # Errors
    /// As [`Record::idle`].
    pub fn took(&mut self, block: u64) -> io::Result<()> {
        self.note(&format!("taken {block}"))
    }

    /// Leases a setting: `ours` is about to be written. A second lease keeps the first's old value.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn lease(&mut self, setting: Setting, ours: &Value, now: &Value) -> io::Result<()> {
        let line = match self.state.settings.get(&setting) {
            Some((earlier, before)) => format!("set {} {ours} {before} {earlier}", setting.name()),
            None => format!("set {} {ours} {now}", setting.name()),
        };
        self.announce(&line)
    }

    /// The setting is restored.
    ///
    /// # Errors
    /// As [`Record::idle`].
    pub fn restored(&mut self, setting: Setting) -> io::Result<()> {
        self.note(&format!("unset {}", setting.name()))
    }

    /// The daemon ends by itself; the guardian has nothing to do.
    pub fn end(&mut self) {
        let _ = self.note("end");
        if let Some(guardian) = self.guardian.take() {
            guardian.end();
        }
        if self.state.is_clean() && self.file.take().is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Writes what is about to happen. If that fails, it must not happen.
    fn announce(&mut self, line: &str) -> io::Result<()> {
        self.write(line)?;
        self.state.take(line);
        Ok(())
    }

    /// Writes what has happened: that is so whether it can be written or not.
    fn note(&mut self, line: &str) -> io::Result<()> {
        self.state.take(line);
        self.write(line)
    }

    /// Writes a line to the file and to the guardian, both in any case.
    fn write(&mut self, line: &str) -> io::Result<()> {
        let saved = self.save(line);
        let told = self.tell_guardian(line);
        // A line that only one of them has says what does not happen.
        self.is_stale |= saved.is_err() || told.is_err();
        saved.and(told)
    }

    fn save(&mut self, line: &str) -> io::Result<()> {
        if self.file.is_none() {
            return Ok(());
        }
        // The last line of a stale file may be cut short.
        if self.is_stale || self.bytes > MAX_BYTES {
            self.begin()?;
        }
        let text = format!("{line}\n");
        self.bytes += text.len() as u64;
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(text.as_bytes()))
    }

    fn tell_guardian(&mut self, line: &str) -> io::Result<()> {
        let Some(guardian) = &mut self.guardian else { return Ok(()) };
        let text = format!("{line}\n");
        if guardian.tell(&text).is_ok() {
            return Ok(());
        }
        let gone = |error| io::Error::other(format!("the guardian is gone: {error}"));
        guardian.replace(&self.state).and_then(|()| guardian.tell(&text)).map_err(gone)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> Value {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_recorded_is_read_back() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("deep/record");
        let mut record = Record::load(&path, "b1").unwrap();
        record.begin().unwrap();
        record.busy(17, Place::Kernel).unwrap();
        record.idle(17, Some(Place::Movable)).unwrap();
        record.busy(18, Place::Movable).unwrap();
        let setting = Setting::MinFreeKbytes;
        record.lease(setting, &value("30"), &value("10")).unwrap();
        record.lease(setting, &value("20"), &value("30")).unwrap();
        let read = State::load(&path, "b1").unwrap();
        assert_eq!(&read, record.state());
        assert_eq!(read.blocks, BTreeMap::from([(17, Place::Kernel), (18, Place::Movable)]));
        assert_eq!(read.busy, BTreeSet::from([18]));
        assert_eq!(read.settings[&setting], (value("20"), value("10")), "the first's old value");
        assert!(read.ours(setting).eq(&[value("20"), value("30")]), "either may be there");
        assert!(State::load(&path, "b2").unwrap().is_clean(), "another boot");

        record.idle(18, Some(Place::Movable)).unwrap();
        record.idle(17, Some(Place::Kernel)).unwrap();
        record.restored(setting).unwrap();
        assert!(record.state().is_clean());
        record.end();
        assert!(!path.exists());
    }

    #[test]
    fn the_guardian_gets_every_line() {
        let root = tempfile::tempdir().unwrap();
        let copy = root.path().join("copy");
        let mut record = Record::load(&root.path().join("record"), "b").unwrap();
        record.begin().unwrap();
        let script = format!("cat >{}", copy.display());
        record.guard(Path::new("sh"), &["-c", &script]).unwrap();
        record.busy(3, Place::Kernel).unwrap();
        record.end();
        assert_eq!(fs::read_to_string(copy).unwrap(), "boot b\nblock 3 kernel\nbusy 3\nend\n");
    }

    #[test]
    fn what_a_daemon_left_is_kept_if_it_ended_by_itself() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("record");
        let is_kept = || State::is_kept(&path, "b").unwrap();
        assert!(!is_kept(), "there is nothing");
        let mut record = Record::load(&path, "b").unwrap();
        record.begin().unwrap();
        record.busy(3, Place::Kernel).unwrap();
        record.idle(3, Some(Place::Movable)).unwrap();
        assert!(!is_kept(), "killed");
        record.end();
        assert!(is_kept());
        Record::load(&path, "b").unwrap().begin().unwrap();
        assert!(!is_kept(), "another daemon has begun");
    }

    #[test]
    fn a_block_is_taken_until_it_is_movable_again() {
        let root = tempfile::tempdir().unwrap();
        let mut record = Record::load(&root.path().join("record"), "b").unwrap();
        record.begin().unwrap();
        record.busy(3, Place::Movable).unwrap();
        record.idle(3, Some(Place::Kernel)).unwrap();
        record.took(3).unwrap();
        record.busy(3, Place::Kernel).unwrap();
        record.idle(3, Some(Place::Kernel)).unwrap();
        assert!(record.state().taken.contains(&3), "it did not move");
        record.idle(3, Some(Place::Movable)).unwrap();
        assert!(record.state().taken.is_empty());
    }

    #[test]
    fn a_guardian_that_is_gone_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let copy = root.path().join("copy");
        let mut record = Record::load(&root.path().join("record"), "b").unwrap();
        record.begin().unwrap();
        // The first one ends at once, those after it listen.
        let copy_path = copy.display();
        let script = format!("test -e {copy_path} && exec cat >{copy_path}; touch {copy_path}");
        record.guard(Path::new("sh"), &["-c", &script]).unwrap();
        while !copy.exists() || !record.renew_guardian().unwrap() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!record.renew_guardian().unwrap(), "it listens");
        record.busy(3, Place::Kernel).unwrap();
        // Killed meanwhile.
        record.guardian.as_mut().unwrap().kill();
        record.idle(3, Some(Place::Movable)).unwrap();
        record.end();
        let told = fs::read_to_string(copy).unwrap();
        assert_eq!(told, "boot b\nblock 3 kernel\nidle 3\nend\n", "what is left to undo");
    }

    /// The file of the record is one to which nothing can be written, until it is one again.
    #[test]
    fn a_record_goes_on_once_it_can_be_written_again() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("record");
        let mut record = Record::load(&path, "b").unwrap();
        record.begin().unwrap();
        record.busy(3, Place::Kernel).unwrap();
        record.file = Some(File::options().append(true).open("/dev/full").unwrap());
        record.idle(3, Some(Place::Movable)).unwrap_err();
        assert!(!record.state().busy.contains(&3), "it is so all the same");
        // No room for a second file either.
        fs::create_dir(path.with_extension("new")).unwrap();
        record.busy(4, Place::Kernel).unwrap_err();
        assert!(!record.state().blocks.contains_key(&4), "it must not happen");
        fs::remove_dir(path.with_extension("new")).unwrap();
        record.busy(5, Place::Kernel).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "boot b\nblock 3 kernel\nblock 5 kernel\nbusy 5\n");
    }

    #[test]
    fn a_long_record_is_written_again() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("record");
        let mut record = Record::load(&path, "b").unwrap();
        record.begin().unwrap();
        for _ in 0..10_000 {
            record.busy(3, Place::Kernel).unwrap();
            record.idle(3, Some(Place::Kernel)).unwrap();
        }
        assert!(fs::metadata(&path).unwrap().len() <= MAX_BYTES + 100);
    }

    proptest! {
        #[test]
        fn lines_say_what_the_state_is(blocks in prop::collection::btree_map(0..99u64, any::<bool>(), 0..9), busy in prop::collection::btree_set(0..99u64, 0..3)) {
            let place = |movable| if movable { Place::Movable } else { Place::Kernel };
            let blocks = blocks.into_iter().map(|(n, movable)| (n, place(movable))).collect();
            let settings = BTreeMap::from([(Setting::MinFreeKbytes, (value("1"), value("2,3")))]);
            let taken = BTreeSet::from([7]);
            let earlier = BTreeMap::from([(Setting::MinFreeKbytes, value("4"))]);
            let state = State { boot: "b".into(), blocks, busy, taken, settings, earlier, ended: false };
            let mut read = State::default();
            state.lines().lines().for_each(|line| read.take(line));
            prop_assert_eq!(read, state);
        }

        #[test]
        fn garbage_is_passed_over(line in "\\PC*", words in prop::collection::vec("[a-z0-9]{1,6}", 0..5)) {
            let mut state = State::default();
            state.take(&line);
            state.take(&words.join(" "));
        }
    }
}
