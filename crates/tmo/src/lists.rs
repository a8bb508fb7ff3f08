//! Lists of pages by use, each page on one at most: doubly linked, through arrays.

/// No page.
const NONE: u32 = u32::MAX;

/// Pages in order, newest first.
#[derive(Clone, Debug)]
pub struct Lists {
    links: Vec<[u32; 2]>,
    on: Vec<Option<u8>>,
    ends: Vec<[u32; 2]>,
    sizes: Vec<u64>,
}

impl Lists {
    /// Empty lists for a number of pages.
    pub fn new(lists: u8, pages: usize) -> Lists {
        Lists {
            links: vec![[NONE; 2]; pages],
            on: vec![None; pages],
            ends: vec![[NONE; 2]; usize::from(lists)],
            sizes: vec![0; usize::from(lists)],
        }
    }

    /// One more page, on no list.
    pub fn add_page(&mut self) {
        self.links.push([NONE; 2]);
        self.on.push(None);
    }

    /// Pages on a list.
    pub fn size(&self, list: u8) -> u64 {
        self.sizes[usize::from(list)]
    }

    /// The list that a page is on.
    pub fn on(&self, page: u32) -> Option<u8> {
        self.on[page as usize]
    }

    /// The page that has been on a list longest.
    pub fn oldest(&self, list: u8) -> Option<u32> {
        let [_, tail] = self.ends[usize::from(list)];
        (tail != NONE).then_some(tail)
    }

    /// Puts a page that is on no list at the head of one.
    pub fn push(&mut self, list: u8, page: u32) {
        debug_assert!(self.on[page as usize].is_none());
        let [head, tail] = self.ends[usize::from(list)];
        self.links[page as usize] = [NONE, head];
        if head == NONE {
            self.ends[usize::from(list)] = [page, page];
        } else {
            self.links[head as usize][0] = page;
            self.ends[usize::from(list)] = [page, tail];
        }
        self.on[page as usize] = Some(list);
        self.sizes[usize::from(list)] += 1;
    }

    /// Makes a page the oldest of the list that it is on.
    pub fn make_oldest(&mut self, page: u32) {
        let Some(list) = self.on[page as usize] else { return };
        self.remove(page);
        let ends = &mut self.ends[usize::from(list)];
        let tail = std::mem::replace(&mut ends[1], page);
        match tail {
            NONE => ends[0] = page,
            tail => self.links[tail as usize][1] = page,
        }
        self.links[page as usize] = [tail, NONE];
        self.on[page as usize] = Some(list);
        self.sizes[usize::from(list)] += 1;
    }

    /// Takes a page off its list.
    pub fn remove(&mut self, page: u32) {
        let Some(list) = self.on[page as usize].take() else { return };
        let [newer, older] = self.links[page as usize];
        let ends = &mut self.ends[usize::from(list)];
        match newer {
            NONE => ends[0] = older,
            newer => self.links[newer as usize][1] = older,
        }
        match older {
            NONE => ends[1] = newer,
            older => self.links[older as usize][0] = newer,
        }
        self.sizes[usize::from(list)] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Against four deques.
        #[test]
        fn lists_are_queues(steps in prop::collection::vec((0u32..20, 0usize..6), 0..200)) {
            let mut lists = Lists::new(4, 20);
            let mut model: [VecDeque<u32>; 4] = Default::default();
            for (page, to) in steps {
                if to == 5 {
                    lists.make_oldest(page);
                    for queue in model.iter_mut().filter(|queue| queue.contains(&page)) {
                        queue.retain(|other| *other != page);
                        queue.push_back(page);
                    }
                    continue;
                }
                lists.remove(page);
                model.iter_mut().for_each(|queue| queue.retain(|other| *other != page));
                if to < 4 {
                    lists.push(to as u8, page);
                    model[to].push_front(page);
                }
                for list in 0..4 {
                    let queue = &model[usize::from(list)];
                    prop_assert_eq!(lists.oldest(list), queue.back().copied());
                    prop_assert_eq!(lists.size(list), queue.len() as u64);
                    prop_assert!(queue.iter().all(|page| lists.on(*page) == Some(list)));
                }
            }
        }
    }
}
