//! The contents of one pageblock (2 MiB), counted by mobility.

/// Whether a frame stands in the way of a larger block (Contiguitas, "Potential Memory
/// Contiguity": a perfect software compaction moves all that software can move).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mobility {
    /// Free now.
    Free = 0,
    /// In use, and software can move it.
    Movable = 1,
    /// In use, and software cannot move it.
    Unmovable = 2,
    /// Unknown whether it is in use, or whether it is movable.
    Unknown = 3,
    /// No memory: a hole, or a frame that the kernel was never given.
    Absent = 4,
}

impl Mobility {
    /// The mobility in one word.
    pub const fn name(self) -> &'static str {
        match self {
            Mobility::Free => "free",
            Mobility::Movable => "movable",
            Mobility::Unmovable => "unmovable",
            Mobility::Unknown => "unknown",
            Mobility::Absent => "absent",
        }
    }
}

/// Frames of one pageblock by mobility. Frames that are not counted are [`Mobility::Absent`].
///
/// Eight bytes for 512 frames; the four counts never sum to more than 512.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Frames that are free.
    pub free: u16,
    /// Frames in use that software can move.
    pub movable: u16,
    /// Frames in use that software cannot move.
    pub unmovable: u16,
    /// Frames of unknown mobility.
    pub unknown: u16,
}

impl BlockCounts {
    /// Frames in a pageblock.
    pub const FRAMES: u16 = 512;

    /// Counts `frames` more of one mobility.
    pub fn add(&mut self, mobility: Mobility, frames: u16) {
        match mobility {
            Mobility::Free => self.free += frames,
            Mobility::Movable => self.movable += frames,
            Mobility::Unmovable => self.unmovable += frames,
            Mobility::Unknown => self.unknown += frames,
            Mobility::Absent => {}
        }
        debug_assert!(self.present() <= Self::FRAMES, "more than a pageblock: {self:?}");
    }

    /// Moves `frames` from one mobility to another.
    ///
    /// Which ones they are is as good as random to a processor, so nothing branches on it.
    #[inline]
    pub fn change(&mut self, from: Mobility, to: Mobility, frames: u16) {
        let all = [&mut self.free, &mut self.movable, &mut self.unmovable, &mut self.unknown];
        for (here, count) in all.into_iter().enumerate() {
            let arrived = frames * u16::from(to as usize == here);
            let left = frames * u16::from(from as usize == here);
            debug_assert!(left <= *count, "{left} frames of {from:?} leave {count}");
            *count = count.wrapping_add(arrived).wrapping_sub(left);
        }
        debug_assert!(self.present() <= Self::FRAMES, "more than a pageblock: {self:?}");
    }

    /// Frames that exist.
    pub const fn present(&self) -> u16 {
        self.free + self.movable + self.unmovable + self.unknown
    }

    /// Whether all of the block's frames exist.
    pub const fn is_whole(&self) -> bool {
        self.present() == Self::FRAMES
    }

    /// Whether at least one unmovable frame keeps the block from ever becoming a huge page.
    pub const fn is_polluted(&self) -> bool {
        self.unmovable > 0
    }
}
