//! A disk: one request after another, each with a seek and its bytes; and the swap space on it.

/// A disk that serves requests in the order in which they come.
#[derive(Clone, Copy, Debug)]
pub struct Disk {
    seek_ns: u64,
    bytes_per_second: u64,
    free_at_ns: u64,
    /// Bytes read and written so far.
    pub bytes: u64,
}

impl Disk {
    /// A disk that is idle.
    pub fn new(seek_ns: u64, bytes_per_second: u64) -> Disk {
        Disk { seek_ns, bytes_per_second: bytes_per_second.max(1), free_at_ns: 0, bytes: 0 }
    }

    /// Queues a request of `frames` and returns when it is done.
    pub fn submit(&mut self, now_ns: u64, frames: u64) -> u64 {
        let bytes = frames * 4096;
        self.bytes += bytes;
        let transfer = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        self.free_at_ns = self.free_at_ns.max(now_ns) + self.seek_ns + transfer as u64;
        self.free_at_ns
    }

    /// How long a request that came now would wait.
    pub fn backlog_ns(&self, now_ns: u64) -> u64 {
        self.free_at_ns.saturating_sub(now_ns)
    }
}

/// Swap space, slot by slot. A slot remembers when its page was evicted.
#[derive(Clone, Debug)]
pub struct Swap {
    slots: u32,
    free: Vec<u32>,
    /// Slots from here on were never used.
    fresh: u32,
    shadows: Vec<u64>,
}

impl Swap {
    /// A swap space of `slots` pages.
    pub fn new(slots: u32) -> Swap {
        Swap { slots, free: Vec::new(), fresh: 0, shadows: Vec::new() }
    }

    /// Slots that are free.
    pub fn available(&self) -> u64 {
        u64::from(self.slots - self.fresh) + self.free.len() as u64
    }

    /// Slots in use.
    pub fn used(&self) -> u64 {
        u64::from(self.slots) - self.available()
    }

    /// Takes a slot for a page evicted as `shadow` says.
    pub fn store(&mut self, shadow: u64) -> Option<u32> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.fresh < self.slots => {
                self.fresh += 1;
                self.shadows.push(0);
                self.fresh - 1
            }
            None => return None,
        };
        self.shadows[slot as usize] = shadow;
        Some(slot)
    }

    /// Gives a slot back and returns what it remembered.
    pub fn take(&mut self, slot: u32) -> u64 {
        self.free.push(slot);
        self.shadows[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_for_each_other() {
        let mut disk = Disk::new(1_000, 4096 * 1_000_000);
        assert_eq!(disk.submit(0, 10), 11_000);
        assert_eq!(disk.submit(5_000, 1), 13_000);
        assert_eq!(disk.backlog_ns(12_000), 1_000);
        assert_eq!(disk.submit(20_000, 1), 22_000);
    }

    #[test]
    fn swap_is_finite_and_remembers() {
        let mut swap = Swap::new(2);
        let (a, b) = (swap.store(7).unwrap(), swap.store(8).unwrap());
        assert_eq!((swap.store(9), swap.available(), swap.used()), (None, 0, 2));
        assert_eq!((swap.take(a), swap.take(b)), (7, 8));
        assert_eq!(swap.available(), 2);
        assert!(swap.store(1).is_some());
    }
}
