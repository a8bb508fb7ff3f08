//! What `prairie top` shows, and what a key does to it.

use std::time::Duration;

use prairie_host::texts::slabinfo::SlabCache;
use prairie_observe::Summary;
use prairie_offload::status::Status;
use prairie_trace::stalls::Stalls;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};

/// One of the panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panel {
    /// The map of memory.
    Map,
    /// Fragmentation by zone.
    Zones,
    /// Unmovable memory by source.
    Unmovable,
    /// Events a second.
    Events,
    /// Who waits for memory.
    Stalls,
    /// Offloaded containers.
    Containers,
}

impl Panel {
    /// All, in the order of their numbers.
    pub const ALL: [Panel; 6] = [
        Panel::Map,
        Panel::Zones,
        Panel::Unmovable,
        Panel::Events,
        Panel::Stalls,
        Panel::Containers,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Panel::Map => "Map",
            Panel::Zones => "Zones",
            Panel::Unmovable => "Unmovable",
            Panel::Events => "Events",
            Panel::Stalls => "Stalls",
            Panel::Containers => "Containers",
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// The offloaded containers, or why there are none.
#[derive(Clone, Debug)]
pub enum Containers {
    /// The daemon's answer.
    Status(Box<Status>),
    /// Why there is none.
    None(String),
}

/// Who waits for memory, or why it is not known.
#[derive(Clone, Debug)]
pub enum Stalling {
    /// Stalls since the program began.
    Since(Box<Stalls>),
    /// Why there are none.
    None(String),
}

/// What is known only of the present.
#[derive(Clone, Debug)]
pub struct Live {
    /// Slab caches, the largest first; empty without permission.
    pub slabs: Vec<SlabCache>,
    /// The offloaded containers.
    pub containers: Containers,
    /// Who waits for memory.
    pub stalls: Stalling,
    /// What could not be read, and the remedy.
    pub left_out: Vec<String>,
}

/// A place in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// The row, from 0.
    pub at: usize,
    /// Rows that are loaded.
    pub count: usize,
}

/// What is shown.
#[derive(Clone, Debug)]
pub struct State {
    /// The host's name.
    pub host: String,
    /// Its kernel.
    pub kernel_release: String,
    /// The figures.
    pub now: Summary,
    /// Those before, for rates.
    pub before: Option<Summary>,
    /// The present; `None` when a log is shown.
    pub live: Option<Live>,
    /// The place in the log.
    pub past: Option<Past>,
    /// Time between two readings.
    pub interval: Duration,
    /// Whether new readings wait.
    pub is_paused: bool,
    /// The panel.
    pub panel: Panel,
    /// Whether events are sorted by rate rather than in the kernel's order.
    pub by_rate: bool,
    /// Whether the help covers the panel.
    pub shows_help: bool,
    /// Something to say in place of the keys, until the next key.
    pub message: Option<String>,
    /// First line of each panel.
    scrolled: [usize; Panel::ALL.len()],
    /// Lines of the panel, and how many fit.
    fitted: (usize, usize),
}

/// What a key asks the program for, beyond a change of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Only to draw again.
    Draw,
    /// To end.
    Quit,
    /// To read now, page flags as well.
    Refresh,
    /// To go some rows on in the log.
    Step(i64),
    /// To go some seconds on in the log.
    Jump(i64),
}

/// The shortest and the longest interval that keys choose.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

impl State {
    /// The first state.
    pub fn new(host: String, kernel_release: String, interval: Duration) -> State {
        State {
            host,
            kernel_release,
            now: Summary::empty(0),
            before: None,
            live: None,
            past: None,
            interval,
            is_paused: false,
            panel: Panel::Map,
            by_rate: false,
            shows_help: false,
            message: None,
            scrolled: [0; Panel::ALL.len()],
            fitted: (0, 0),
        }
    }

    /// The next reading.
    pub fn take(&mut self, now: Summary, live: Live) {
        let before = std::mem::replace(&mut self.now, now);
        self.before = (before.at_unix_ns > 0).then_some(before);
        self.live = Some(live);
    }

    /// How fast a column rises, a second.
    pub fn rate(&self, column: &str) -> Option<f64> {
        self.now.rate(self.before.as_ref()?, column)
    }

    /// The first line of the panel.
    pub fn scroll(&self) -> usize {
        self.scrolled[self.panel.index()]
    }

    /// The panel has `lines` lines and shows `fit` of them: keeps the last ones in sight.
    pub fn fit(&mut self, lines: usize, fit: usize) {
        self.fitted = (lines, fit);
        let first = &mut self.scrolled[self.panel.index()];
        *first = (*first).min(lines.saturating_sub(fit));
    }

    fn scroll_by(&mut self, lines: isize) {
        let last = self.fitted.0.saturating_sub(self.fitted.1);
        let first = &mut self.scrolled[self.panel.index()];
        *first = first.saturating_add_signed(lines).min(last);
    }

    fn show(&mut self, panel: usize) {
        self.panel = Panel::ALL[panel % Panel::ALL.len()];
        self.shows_help = false;
    }

    /// Takes a key. Keys are those of htop and below.
    pub fn key(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Action {
        self.message = None;
        let page = isize::try_from(self.fitted.1).unwrap_or(1).max(1);
        match code {
            KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => {
                return Action::Quit;
            }
            KeyCode::Esc if self.shows_help => self.shows_help = false,
            KeyCode::Char('q') | KeyCode::F(10) => return Action::Quit,
            KeyCode::Char('h' | '?') | KeyCode::F(1) => self.shows_help = !self.shows_help,
            KeyCode::Char(digit @ '1'..='6') => self.show(digit as usize - '1' as usize),
            KeyCode::Tab | KeyCode::Right => self.show(self.panel.index() + 1),
            KeyCode::BackTab | KeyCode::Left => {
                self.show(self.panel.index() + Panel::ALL.len() - 1);
            }
            KeyCode::Up => self.scroll_by(-1),
            KeyCode::Down => self.scroll_by(1),
            KeyCode::PageUp => self.scroll_by(-page),
            KeyCode::PageDown => self.scroll_by(page),
            KeyCode::Home => self.scroll_by(isize::MIN),
            KeyCode::End => self.scroll_by(isize::MAX),
            KeyCode::F(6) | KeyCode::Char('>' | 's') => self.by_rate = !self.by_rate,
            _ if self.past.is_some() => return self.key_in_past(code),
            KeyCode::Char(' ' | 'p') => self.is_paused = !self.is_paused,
            KeyCode::Char('r') | KeyCode::F(5) => return Action::Refresh,
            KeyCode::Char('+') => self.interval = (self.interval * 2).min(INTERVALS.1),
            KeyCode::Char('-') => self.interval = (self.interval / 2).max(INTERVALS.0),
            _ => {}
        }
        Action::Draw
    }

    fn key_in_past(&self, code: KeyCode) -> Action {
        match code {
            KeyCode::Char('t') => Action::Step(1),
            KeyCode::Char('T') => Action::Step(-1),
            KeyCode::Char('j') => Action::Jump(3600),
            KeyCode::Char('J') => Action::Jump(-3600),
            _ => Action::Draw,
        }
    }
}
