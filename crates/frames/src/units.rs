//! The two numbers of the page allocator, as types: a frame's number and a block's order.

use core::fmt;

/// The number of a physical page frame: its physical address divided by the base page size.
///
/// 64 bits, so that every machine fits; the trace format promises at least 40.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pfn(pub u64);

impl Pfn {
    /// The first frame of the block of `order` that contains this frame.
    pub const fn align_down(self, order: Order) -> Pfn {
        Pfn(self.0 & !(order.frames() - 1))
    }

    /// Whether a block of `order` may start here: its first frame number is a multiple of its size.
    pub const fn is_aligned(self, order: Order) -> bool {
        self.0 & (order.frames() - 1) == 0
    }
}

impl fmt::Display for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The size of a block of frames as a power of two: a block of order `j` has `2^j` frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order(u8);

impl Order {
    /// A single frame.
    pub const BASE: Order = Order(0);
    /// A pageblock and a huge page of the x86-64 and 4 KiB-granule arm64 kernels: 2 MiB.
    pub const HUGE: Order = Order(9);
    /// The largest block that Linux keeps on a free list with 4 KiB pages: 4 MiB.
    pub const LARGEST_FREE: Order = Order(10);
    /// 32 MiB, the middle size of Contiguitas, Figures 2 and 5.
    pub const MIB_32: Order = Order(13);
    /// A gigantic page: 1 GiB.
    pub const GIGANTIC: Order = Order(18);
    /// No order beyond this one is meaningful anywhere in Prairie (4 PiB of 4 KiB frames).
    pub const LIMIT: Order = Order(40);

    /// The order `value`, or `None` above [`Order::LIMIT`].
    pub const fn new(value: u8) -> Option<Order> {
        if value <= Order::LIMIT.0 { Some(Order(value)) } else { None }
    }

    /// The order as a bare number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The order as an index into per-order arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Number of frames in a block of this order.
    pub const fn frames(self) -> u64 {
        1 << self.0
    }

    /// Size in bytes of a block of this order, with the 4 KiB base pages that Prairie supports.
    pub const fn bytes(self) -> u64 {
        self.frames() << 12
    }

    /// The order of twice the size. Not for [`Order::LIMIT`].
    pub(crate) const fn doubled(self) -> Order {
        debug_assert!(self.0 < Order::LIMIT.0);
        Order(self.0 + 1)
    }

    /// The order of half the size. Not for [`Order::BASE`].
    pub(crate) const fn halved(self) -> Order {
        debug_assert!(self.0 > 0);
        Order(self.0 - 1)
    }

    /// All orders from `0` to `last`, ascending.
    pub fn up_to(last: Order) -> impl DoubleEndedIterator<Item = Order> + Clone {
        (0..=last.0).map(Order)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_order() {
        assert_eq!(Order::HUGE.bytes(), 2 << 20);
        assert_eq!(Order::MIB_32.bytes(), 32 << 20);
        assert_eq!(Order::GIGANTIC.bytes(), 1 << 30);
        assert_eq!(Order::new(40), Some(Order::LIMIT));
        assert_eq!(Order::new(41), None);
    }

    #[test]
    fn alignment_is_to_the_block() {
        assert_eq!(Pfn(0x3ff).align_down(Order::HUGE), Pfn(0x200));
        assert!(Pfn(0x400).is_aligned(Order::LARGEST_FREE));
        assert!(!Pfn(0x600).is_aligned(Order::LARGEST_FREE));
    }
}
