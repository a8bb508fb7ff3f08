//! The objectives of classes: readings become known, and who misses one is sampled soon.

use std::io;
use std::time::Duration;

use super::Daemon;
use crate::config::Class;
use crate::guard::Guard;
use crate::objective::{Objective, Record, Standing};
use crate::observation::Room;
use crate::precedence;
use crate::status::ClassStatus;
use crate::world::objectives::{Reader, Sample};

/// What is known of a class.
#[derive(Debug)]
pub(super) struct ClassState {
    followed: Option<Followed>,
    standing: Standing,
    /// The last error of a reading; empty after one that succeeded.
    trouble: String,
}

#[derive(Debug)]
struct Followed {
    objective: Objective,
    reader: Reader,
    record: Record,
}

impl ClassState {
    /// Begins to read the objective of a class.
    ///
    /// # Errors
    /// I/O errors of the system: no threads.
    fn new(class: &Class, in_thread: bool) -> io::Result<ClassState> {
        let follow = |objective: &Objective| -> io::Result<Followed> {
            let reader = Reader::start(objective, in_thread)?;
            let record = Record::new(objective);
            Ok(Followed { objective: objective.clone(), reader, record })
        };
        let followed = class.objective.as_ref().map(follow).transpose()?;
        let standing = if followed.is_some() { Standing::Unknown } else { Standing::None };
        Ok(ClassState { followed, standing, trouble: String::new() })
    }

    fn is_of(&self, class: &Class) -> bool {
        self.followed.as_ref().map(|followed| &followed.objective) == class.objective.as_ref()
    }

    /// Takes the readings since the last call. Returns whether the standing has changed its kind.
    fn poll(&mut self, now: Duration) -> bool {
        let Some(Followed { reader, record, .. }) = &mut self.followed else { return false };
        match reader.poll(now) {
            Some(Ok(Sample { value, age })) => {
                record.read(now.saturating_sub(age), value);
                self.trouble.clear();
            }
            Some(Err(trouble)) => self.trouble = trouble,
            None => {}
        }
        let before = std::mem::replace(&mut self.standing, record.standing(now));
        std::mem::discriminant(&before) != std::mem::discriminant(&self.standing)
    }
}

/// The classes of a configuration, those that stay as they are kept from `old`.
///
/// # Errors
/// I/O errors of the system: no threads.
pub(super) fn follow(
    classes: &[Class],
    mut old: Vec<ClassState>,
    in_threads: bool,
) -> io::Result<Vec<ClassState>> {
    let state = |class: &Class| match old.iter().position(|state| state.is_of(class)) {
        Some(at) => Ok(old.swap_remove(at)),
        None => ClassState::new(class, in_threads),
    };
    classes.iter().map(state).collect()
}

impl Daemon {
    /// Takes readings of objectives. Returns when to read again, if there are any.
    pub(super) fn read_objectives(&mut self, now: Duration) -> Option<Duration> {
        let followed = self.classes.iter().filter_map(|state| state.followed.as_ref());
        let every = followed.map(|followed| followed.objective.every).min()?;
        for at in 0..self.classes.len() {
            if self.classes[at].poll(now) {
                self.standing_changed(at);
            }
            let (name, trouble) = (&self.config.classes[at].name, &self.classes[at].trouble);
            if !trouble.is_empty() {
                let (about, trouble) = (format!("class {name}"), trouble.clone());
                self.report_once(&about, format!("the objective cannot be read: {trouble}"));
            }
        }
        self.list_classes();
        Some(now + every)
    }

    fn standing_changed(&mut self, class: usize) {
        let name = &self.config.classes[class].name;
        let what = match self.classes[class].standing {
            Standing::None => return,
            Standing::Met { value } => format!("met with {value}"),
            Standing::Missed { value, at_most } => {
                format!("missed with {value}, at most {at_most}: reclaim stops")
            }
            Standing::Unknown => "unknown: reclaim stops".to_owned(),
        };
        self.setting.log.note("objective", format_args!("class {name}: {what}"));
        let rules = &self.config.rules;
        for container in &mut self.containers {
            if rules[container.rule].class == Some(class) {
                let period = container.controller.profile().period;
                container.due = container.due.min(container.seen.at + period);
            }
        }
    }

    /// How the class of a container stands.
    pub(super) fn standing_of(&self, at: usize) -> Standing {
        let class = self.config.rules.get(self.containers[at].rule).and_then(|rule| rule.class);
        class
            .and_then(|class| self.classes.get(class))
            .map_or(Standing::None, |class| class.standing)
    }

    /// Whether a container leaves scarce room to classes of lower priority.
    pub(super) fn yields(&self, at: usize, room: &Room) -> bool {
        let rules = &self.config.rules;
        let priority = rules[self.containers[at].rule].priority;
        if rules.iter().all(|rule| rule.priority == priority) {
            return false;
        }
        let reserve = self.containers[at].controller.profile().swap_reserve;
        let wanting = self.containers.iter().filter(|container| container.wants);
        let others = wanting.map(|container| rules[container.rule].priority);
        precedence::yields(priority, others, precedence::scarcity(room, reserve))
    }

    pub(super) fn list_classes(&mut self) {
        let entries = self.config.classes.iter().zip(&self.classes).map(|(class, state)| {
            let (standing, value) = match state.standing {
                Standing::None => ("", None),
                Standing::Met { value } => ("met", Some(value)),
                Standing::Missed { value, .. } => ("missed", Some(value)),
                Standing::Unknown => ("unknown", None),
            };
            ClassStatus {
                name: class.name.clone(),
                priority: class.priority,
                objective: standing.to_owned(),
                value: value.filter(|value| value.is_finite()),
                at_most: class.objective.as_ref().map(|objective| objective.at_most),
                trouble: state.trouble.clone(),
            }
        });
        self.status.lock().classes = entries.collect();
    }
}

/// Whether a container would use room for what it offloads, if there is any.
pub(super) fn wants_room(reclaims: bool, guard: Option<&Guard>) -> bool {
    let waits =
        |guard: &Guard| matches!(guard, Guard::OverReclaim { .. } | Guard::Busy | Guard::Yielding);
    reclaims || guard.is_some_and(waits)
}
