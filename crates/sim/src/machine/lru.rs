//! The lists of pages by how recently they were used (`struct lruvec`).
//!
//! Lists are linked through the pages themselves: a page is on one list at most, at any place of
//! it, and leaves it in constant time.

use super::page::{Flags, Page, PageId, Pages, Use};

/// The priority that reclaim starts with: it scans 1/4096 of each list (`DEF_PRIORITY`).
pub(super) const DEF_PRIORITY: u32 = 12;

/// Pages in an order, linked through [`Pages`].
#[derive(Clone, Copy, Debug)]
pub struct PageList {
    head: PageId,
    tail: PageId,
    frames: u64,
}

impl PageList {
    /// A list with nothing on it.
    pub const EMPTY: PageList = PageList { head: PageId::NONE, tail: PageId::NONE, frames: 0 };

    /// Frames of all pages on it.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Most recently put at the head.
    pub fn head(&self) -> Option<PageId> {
        (self.head != PageId::NONE).then_some(self.head)
    }

    /// Longest at the tail.
    pub fn tail(&self) -> Option<PageId> {
        (self.tail != PageId::NONE).then_some(self.tail)
    }

    /// Puts a page that is on no list at the head; `name` is the list's name in the page.
    #[inline]
    pub fn push_head(&mut self, pages: &mut Pages, id: PageId, name: u8) {
        let head = self.head;
        let page = &mut pages[id];
        debug_assert_eq!(page.list, Page::NO_LIST, "{id:?}");
        (page.prev, page.next, page.list) = (PageId::NONE, head, name);
        self.frames += page.frames();
        match head {
            PageId::NONE => self.tail = id,
            head => pages[head].prev = id,
        }
        self.head = id;
    }

    /// Puts a page that is on no list at the tail.
    #[inline]
    pub fn push_tail(&mut self, pages: &mut Pages, id: PageId, name: u8) {
        let tail = self.tail;
        let page = &mut pages[id];
        debug_assert_eq!(page.list, Page::NO_LIST, "{id:?}");
        (page.prev, page.next, page.list) = (tail, PageId::NONE, name);
        self.frames += page.frames();
        match tail {
            PageId::NONE => self.head = id,
            tail => pages[tail].next = id,
        }
        self.tail = id;
    }

    /// Takes a page out. It must be on this list.
    #[inline]
    pub fn remove(&mut self, pages: &mut Pages, id: PageId) {
        let page = &mut pages[id];
        let (prev, next) = (page.prev, page.next);
        page.list = Page::NO_LIST;
        self.frames -= page.frames();
        match prev {
            PageId::NONE => self.head = next,
            prev => pages[prev].next = next,
        }
        match next {
            PageId::NONE => self.tail = prev,
            next => pages[next].prev = prev,
        }
    }

    /// The pages from head to tail.
    pub fn iter<'a>(&self, pages: &'a Pages) -> impl Iterator<Item = PageId> + 'a {
        let mut at = self.head;
        std::iter::from_fn(move || {
            let id = at;
            if id == PageId::NONE {
                return None;
            }
            at = pages[id].next;
            Some(id)
        })
    }
}

/// Which of the four lists (`enum lru_list`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Anonymous pages that may go next.
    InactiveAnon = 0,
    /// Anonymous pages in use.
    ActiveAnon = 1,
    /// Page cache that may go next.
    InactiveFile = 2,
    /// Page cache in use.
    ActiveFile = 3,
}

impl Kind {
    /// All four, in the kernel's order.
    pub const ALL: [Kind; 4] =
        [Kind::InactiveAnon, Kind::ActiveAnon, Kind::InactiveFile, Kind::ActiveFile];

    /// Whether it holds page cache.
    pub const fn is_file(self) -> bool {
        matches!(self, Kind::InactiveFile | Kind::ActiveFile)
    }

    /// Whether it is an active list.
    pub const fn is_active(self) -> bool {
        matches!(self, Kind::ActiveAnon | Kind::ActiveFile)
    }

    /// The list for a page; `merged` if anonymous memory and page cache share theirs.
    pub fn of(page: &Page, merged: bool) -> Kind {
        match (merged || page.used_as == Use::File, page.flags.has(Flags::ACTIVE)) {
            (false, false) => Kind::InactiveAnon,
            (false, true) => Kind::ActiveAnon,
            (true, false) => Kind::InactiveFile,
            (true, true) => Kind::ActiveFile,
        }
    }
}

/// The four lists of one zone or node, and what reclaim learned from them.
#[derive(Clone, Debug)]
pub struct LruVec {
    lists: [PageList; 4],
    /// Evictions and activations so far: the clock of refault distances (`nonresident_age`).
    pub nonresident_age: u64,
    /// What reclaiming anonymous memory and page cache has cost, decayed (`anon_cost`,
    /// `file_cost`).
    pub cost: [u64; 2],
    /// Refaults that activated, as of the last reclaim (`refaults`), anonymous and file.
    pub refaults_seen: [u64; 2],
    /// Such refaults so far.
    pub refaults: [u64; 2],
    /// Additional state of a zone in 2.6.16.
    pub zone: ZoneScan,
}

/// What reclaim of 2.6.16 keeps of a zone (`struct zone`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneScan {
    /// Pages that were to be scanned and were not, for they were too few: active, inactive
    /// (`nr_scan_active`, `nr_scan_inactive`).
    pub unscanned: [u64; 2],
    /// The priority of the last look (`temp_priority`).
    pub priority: u32,
    /// The highest recent scan priority, the distress of reclaim (`prev_priority`).
    pub hardest: u32,
    /// Pages scanned since one was freed (`pages_scanned`).
    pub in_vain: u64,
    /// Nothing more can be reclaimed (`all_unreclaimable`).
    pub unreclaimable: bool,
}

impl Default for ZoneScan {
    fn default() -> ZoneScan {
        let priority = DEF_PRIORITY;
        ZoneScan {
            unscanned: [0; 2],
            priority,
            hardest: priority,
            in_vain: 0,
            unreclaimable: false,
        }
    }
}

/// All lists of a machine.
#[derive(Clone, Debug)]
pub struct Lru {
    vecs: Vec<LruVec>,
    /// Anonymous memory and page cache share their lists, those of page cache, as they did until
    /// 2.6.28.
    merged: bool,
    /// Which lists the pages of each zone of the layout go to.
    of_zone: Vec<usize>,
    /// Whether some zone is unreclaimable ([`ZoneScan::unreclaimable`]).
    pub gave_up: bool,
}

impl Lru {
    /// Lists for the zones of a layout, where `of_zone` shows which zones share theirs: all of a
    /// node since Linux 4.8, none before. `merged` if anonymous memory and page cache share theirs,
    /// as they did until 2.6.28.
    pub fn new(of_zone: Vec<usize>, merged: bool) -> Lru {
        let count = of_zone.iter().max().map_or(0, |&last| last + 1);
        assert!(count * 4 < usize::from(Page::NO_LIST), "{count} sets of lists");
        let vec = LruVec {
            lists: [PageList::EMPTY; 4],
            nonresident_age: 0,
            cost: [0; 2],
            refaults_seen: [0; 2],
            refaults: [0; 2],
            zone: ZoneScan::default(),
        };
        Lru { vecs: vec![vec; count], merged, of_zone, gave_up: false }
    }

    /// Number of sets of lists.
    pub fn count(&self) -> usize {
        self.vecs.len()
    }

    /// The lists that pages of a zone go to.
    pub fn of_zone(&self, zone: usize) -> usize {
        self.of_zone[zone]
    }

    /// One set of lists.
    pub fn vec(&self, at: usize) -> &LruVec {
        &self.vecs[at]
    }

    /// One set of lists.
    pub fn vec_mut(&mut self, at: usize) -> &mut LruVec {
        &mut self.vecs[at]
    }

    /// One list.
    pub fn list(&self, at: usize, kind: Kind) -> &PageList {
        &self.vecs[at].lists[kind as usize]
    }

    /// Frames on one list.
    pub fn size(&self, at: usize, kind: Kind) -> u64 {
        self.vecs[at].lists[kind as usize].frames()
    }

    /// Frames on all lists of a kind.
    pub fn total(&self, kind: Kind) -> u64 {
        self.vecs.iter().map(|vec| vec.lists[kind as usize].frames()).sum()
    }

    /// Puts a page that is on no list at the head of the one its use and flags ask for.
    #[inline]
    pub fn add(&mut self, pages: &mut Pages, at: usize, id: PageId) {
        let kind = Kind::of(&pages[id], self.merged);
        let name = (at * 4) as u8 + kind as u8;
        self.vecs[at].lists[kind as usize].push_head(pages, id, name);
    }

    /// Puts a page that is on no list at the tail: it is scanned next.
    pub fn add_tail(&mut self, pages: &mut Pages, at: usize, id: PageId) {
        let kind = Kind::of(&pages[id], self.merged);
        let name = (at * 4) as u8 + kind as u8;
        self.vecs[at].lists[kind as usize].push_tail(pages, id, name);
    }

    /// Takes a page off its list and returns which set the list belongs to, if it was on one.
    #[inline]
    pub fn remove(&mut self, pages: &mut Pages, id: PageId) -> Option<usize> {
        let name = pages[id].list;
        if name == Page::NO_LIST {
            return None;
        }
        let at = usize::from(name / 4);
        self.vecs[at].lists[usize::from(name % 4)].remove(pages, id);
        Some(at)
    }

    /// Moves a page to the head of its active list (`folio_activate`).
    pub fn activate(&mut self, pages: &mut Pages, id: PageId) {
        if let Some(at) = self.remove(pages, id) {
            pages[id].flags.set(Flags::ACTIVE);
            self.vecs[at].nonresident_age += pages[id].frames();
            self.add(pages, at, id);
        }
    }

    /// Compares lists and counts with the pages.
    ///
    /// # Panics
    /// If they contradict each other.
    pub fn validate(&self, pages: &Pages) {
        let mut listed = 0u64;
        for (at, vec) in self.vecs.iter().enumerate() {
            for kind in Kind::ALL {
                let list = &vec.lists[kind as usize];
                let mut frames = 0;
                for id in list.iter(pages) {
                    let page = &pages[id];
                    assert!(page.is_lru(), "{id:?} {page:?} on an LRU list");
                    assert_eq!(Kind::of(page, self.merged), kind, "{id:?} {page:?}");
                    assert_eq!(usize::from(page.list), at * 4 + kind as usize, "{id:?} {page:?}");
                    frames += page.frames();
                }
                assert_eq!(frames, list.frames(), "frames on {kind:?} of {at}");
                listed += frames;
            }
        }
        let lru = pages.frames_used_as(Use::Anonymous) + pages.frames_used_as(Use::File);
        assert_eq!(listed, lru, "user pages that are on no list");
    }
}
