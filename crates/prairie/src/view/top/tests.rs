use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use prairie_frames::Order;
use prairie_host::Roots;
use prairie_observe::summary::RegionsRow;
use prairie_observe::{Budget, Collector, Summary};
use prairie_offload::status::{CgroupStatus, Status};
use prairie_trace::stalls::Stalls;
use prairie_trace::{Event, EventKind, GfpFlags, StackId, StallPoint, Texts};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};

use super::*;

/// A captured Linux 6.18, of whose frames the first 8192 are known.
fn captured(seconds: u64) -> Summary {
    let proc = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/fixtures/linux-6.18/proc");
    let budget = Budget { share: 1.0, interval: Duration::from_secs(60) };
    let collector = Collector::new(Roots::at(&proc), budget);
    collector.walk(1, &AtomicBool::new(false)).unwrap();
    let mut moment = collector.moment().unwrap();
    moment.at_unix_ns = 1_795_399_200_000_000_000 + seconds * 1_000_000_000;
    for counter in &mut moment.counters {
        counter.value += if counter.name == "compact_stall" { 5 * seconds } else { 0 };
    }
    Summary::of(&moment, collector.figures().as_deref())
}

fn state() -> State {
    let mut state = State::new("host".into(), "6.18.5".into(), Duration::from_secs(2));
    let live = Live {
        slabs: Vec::new(),
        containers: Containers::None("no offload daemon answers".into()),
        stalls: Stalling::None("needs root".into()),
        left_out: Vec::new(),
    };
    state.take(captured(0), live.clone());
    state.take(captured(2), live);
    state
}

fn screen(state: &mut State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(move |x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(row).map(|row| row.trim_end().to_owned() + "\n").collect()
}

#[test]
fn everything_fits_eighty_by_twenty_four() {
    let mut state = state();
    let text = screen(&mut state, 80, 24);
    assert_eq!(text.lines().count(), 24, "{text}");
    assert!(text.starts_with("prairie top  host  2026-11-23 02:00:02 UTC  every 2s"), "{text}");
    assert!(text.contains("Linux 6.18.5"), "{text}");
    for part in ["Memory [", "F_u  2M[", "Potent.[", "Pollut.[", "Huge pg[", "compaction 5.0/s"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert!(text.lines().last().unwrap().starts_with("F1Help"), "{text}");
    for (number, panel) in ('1'..='6').zip(Panel::ALL) {
        state.key(KeyCode::Char(number), KeyModifiers::NONE);
        assert_eq!(state.panel, panel);
        let text = screen(&mut state, 80, 24);
        let expected = match panel {
            Panel::Map => "R reserved",
            Panel::Zones => "Normal",
            Panel::Unmovable => "page tables",
            Panel::Events => "compact_stall",
            Panel::Stalls => "needs root",
            Panel::Containers => "no offload daemon answers",
        };
        assert!(text.contains(expected), "{expected}:\n{text}");
    }
}

/// The same host with a border that moves.
fn state_with_regions() -> State {
    let mut state = state();
    let regions = |us| RegionsRow {
        border_pfn: 1 << 26,
        unmovable_bytes: 1000 << 20,
        unmovable_some_us: Some(us),
        ..RegionsRow::default()
    };
    state.now.regions = vec![regions(1_500_000)];
    state.before.as_mut().unwrap().regions = vec![regions(500_000)];
    state
}

#[test]
fn regions_have_a_line_and_rows() {
    let mut state = state_with_regions();
    let text = screen(&mut state, 80, 24);
    assert_eq!(text.lines().count(), 24, "{text}");
    assert!(text.contains("\nBorder  256 GiB; below 0 B of 0 B free, above"), "{text}");
    state.panel = Panel::Zones;
    let text = screen(&mut state, 80, 24);
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(row("   0 unmovable").ends_with("1000 MiB          -          -    50.0 %"), "{text}");
    assert!(row("   0 movable").contains("0x4000000"), "{text}");
    // With two nodes there is no one border.
    state.now.regions.push(RegionsRow { node: 1, ..RegionsRow::default() });
    assert!(screen(&mut state, 80, 24).contains("\nBorder  2 nodes; below"));
}

#[test]
fn other_sizes_do_not_panic() {
    let mut with_regions = state_with_regions();
    screen(&mut with_regions, 60, 12);
    let mut state = state();
    for (width, height) in [(1, 1), (40, 10), (60, 12), (81, 25), (200, 60)] {
        for panel in Panel::ALL {
            state.panel = panel;
            screen(&mut state, width, height);
        }
    }
    assert!(screen(&mut state, 50, 5).contains("at least 60 columns"));
    let mut empty = State::new("host".into(), "6.18.5".into(), Duration::from_secs(2));
    for panel in Panel::ALL {
        empty.panel = panel;
        screen(&mut empty, 80, 24);
    }
}

#[test]
fn keys_are_those_of_htop_and_below() {
    let mut state = state();
    let mut press = |code| state.key(code, KeyModifiers::NONE);
    assert_eq!(press(KeyCode::Char('q')), Action::Quit);
    assert_eq!(press(KeyCode::F(10)), Action::Quit);
    assert_eq!(press(KeyCode::Char('r')), Action::Refresh);
    assert_eq!(press(KeyCode::Char('t')), Action::Draw, "nothing to step to in the present");
    assert_eq!(state.key(KeyCode::Char('c'), KeyModifiers::CONTROL), Action::Quit);

    state.key(KeyCode::F(1), KeyModifiers::NONE);
    assert!(screen(&mut state, 80, 24).contains("Ctrl-C"));
    state.key(KeyCode::Esc, KeyModifiers::NONE);
    assert!(!screen(&mut state, 80, 24).contains("Ctrl-C"));

    state.key(KeyCode::BackTab, KeyModifiers::NONE);
    assert_eq!(state.panel, Panel::Containers);
    state.key(KeyCode::Tab, KeyModifiers::NONE);
    assert_eq!(state.panel, Panel::Map);

    state.key(KeyCode::Char('+'), KeyModifiers::NONE);
    assert_eq!(state.interval, Duration::from_secs(4));
    for _ in 0..20 {
        state.key(KeyCode::Char('-'), KeyModifiers::NONE);
    }
    assert_eq!(state.interval, Duration::from_millis(500));

    state.past = Some(Past { at: 0, count: 10 });
    let mut press = |code| state.key(code, KeyModifiers::NONE);
    assert_eq!(press(KeyCode::Char('t')), Action::Step(1));
    assert_eq!(press(KeyCode::Char('T')), Action::Step(-1));
    assert_eq!(press(KeyCode::Char('J')), Action::Jump(-3600));
    assert!(screen(&mut state, 80, 24).contains("sample 1 of 10"));
}

#[test]
fn panels_scroll_to_their_last_line_and_no_further() {
    let mut state = state();
    state.panel = Panel::Events;
    let first = screen(&mut state, 80, 24);
    assert!(first.contains("thp_fault_alloc"), "{first}");
    state.key(KeyCode::End, KeyModifiers::NONE);
    let last = screen(&mut state, 80, 24);
    assert!(last.contains("unevictable_pgs_mlocked"), "{last}");
    state.key(KeyCode::PageDown, KeyModifiers::NONE);
    assert_eq!(screen(&mut state, 80, 24), last);
    state.key(KeyCode::Home, KeyModifiers::NONE);
    assert_eq!(screen(&mut state, 80, 24), first);
    // The fastest first: only one counter rises.
    state.key(KeyCode::F(6), KeyModifiers::NONE);
    let sorted = screen(&mut state, 80, 24);
    let row = sorted.lines().skip_while(|line| !line.starts_with("event")).nth(1).unwrap();
    assert!(row.starts_with("compact_stall") && row.contains("5.0/s"), "{sorted}");
}

#[test]
fn stalls_show_who_waited() {
    let mut texts = Texts::default();
    let name = texts.intern("web");
    let mut stalls = Stalls::default();
    stalls.begin(0);
    let mut take = |ms: u64, what| {
        stalls.event(&Event { time_ns: ms * 1_000_000, pid: 7, cpu: 0, what }, &texts);
    };
    take(0, EventKind::Process { name });
    for (ms, point) in [(10, StallPoint::ReclaimBegin), (35, StallPoint::ReclaimEnd)] {
        let (order, gfp, stack) = (Order::BASE, GfpFlags(0), StackId::NONE);
        take(ms, EventKind::Stall { point, task: 7, order, gfp, stack, value: 0 });
    }
    take(100, EventKind::Exit);
    let mut state = state();
    state.live.as_mut().unwrap().stalls = Stalling::Since(Box::new(stalls));
    state.panel = Panel::Stalls;
    let text = screen(&mut state, 80, 24);
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    for name in ["direct reclaim", "web"] {
        assert!(row(name).contains("25.0 %") && row(name).ends_with("25 ms"), "{text}");
    }
}

#[test]
fn containers_show_what_limits_them() {
    let mut state = state();
    let cgroup = CgroupStatus {
        path: "workload.slice/a-very-long-name-of-a-container.service".into(),
        current_bytes: 3 << 30,
        zswapped_bytes: 1 << 30,
        guard: "pressure".into(),
        ..CgroupStatus::default()
    };
    let status = Status { cgroups: vec![cgroup], ..Status::default() };
    state.live.as_mut().unwrap().containers = Containers::Status(Box::new(status));
    state.panel = Panel::Containers;
    let text = screen(&mut state, 80, 24);
    assert!(text.contains("of-a-container.service") && text.contains("3 GiB"), "{text}");
    assert!(text.contains("pressure"), "{text}");
}

#[test]
fn the_plain_text_has_every_panel_within_its_width() {
    let text = super::text(&state(), 80);
    for panel in Panel::ALL {
        assert!(text.contains(&format!("\n{}\n---", panel.name())), "{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.contains('\u{1b}'));
}
