//! Methods of a placement that another one stands around: written once, for all that forward them.

/// Forwards methods of [`Placement`](crate::placement::Placement) and
/// [`Stepwise`](crate::placement::stepwise::Stepwise) to an inner placement, inside an `impl` of the
/// trait: `forward! { self => self.inner; free, validate }`. `Vec` has to be in scope.
#[doc(hidden)]
#[macro_export]
macro_rules! __forward_placement {
    (@ mark_pageblock $self:ident $inner:expr) => {
        fn mark_pageblock(&mut $self, pageblock: usize, migrate_type: $crate::MigrateType) {
            $inner.mark_pageblock(pageblock, migrate_type);
        }
    };
    (@ seed $self:ident $inner:expr) => {
        fn seed(
            &mut $self,
            table: &mut $crate::FrameTable,
            frame: $crate::Frame,
            order: $crate::Order,
        ) {
            $inner.seed(table, frame, order);
        }
    };
    (@ start $self:ident $inner:expr) => {
        fn start(&mut $self, table: &mut $crate::FrameTable) {
            $inner.start(table);
        }
    };
    (@ boot $self:ident $inner:expr) => {
        fn boot(&mut $self, table: &mut $crate::FrameTable, layout: &$crate::Layout) {
            $inner.boot(table, layout);
        }
    };
    (@ allocate $self:ident $inner:expr) => {
        #[inline]
        fn allocate(
            &mut $self,
            table: &mut $crate::FrameTable,
            request: &$crate::placement::Request,
            owner: $crate::table::Owner,
        ) -> Option<$crate::Frame> {
            $inner.allocate(table, request, owner)
        }
    };
    (@ allocate_singles $self:ident $inner:expr) => {
        #[inline]
        fn allocate_singles(
            &mut $self,
            table: &mut $crate::FrameTable,
            request: &$crate::placement::Request,
            owner: $crate::table::Owner,
            count: u32,
        ) -> u32 {
            $inner.allocate_singles(table, request, owner, count)
        }
    };
    (@ allocate_listed $self:ident $inner:expr) => {
        #[inline]
        fn allocate_listed(
            &mut $self,
            table: &mut $crate::FrameTable,
            request: &$crate::placement::Request,
            owners: ::core::ops::Range<$crate::table::Owner>,
        ) -> u32 {
            $inner.allocate_listed(table, request, owners)
        }
    };
    (@ plans $self:ident $inner:expr) => {
        fn plans(&$self) -> bool {
            $inner.plans()
        }
    };
    (@ plan $self:ident $inner:expr) => {
        fn plan(
            &mut $self,
            table: &mut $crate::FrameTable,
            requests: &[$crate::placement::Request],
        ) {
            $inner.plan(table, requests);
        }
    };
    (@ free $self:ident $inner:expr) => {
        #[inline]
        fn free(&mut $self, table: &mut $crate::FrameTable, frame: $crate::Frame, cpu: u16) {
            $inner.free(table, frame, cpu);
        }
    };
    (@ free_singles $self:ident $inner:expr) => {
        #[inline]
        fn free_singles(
            &mut $self,
            table: &mut $crate::FrameTable,
            owners: ::core::ops::Range<$crate::table::Owner>,
            cpu: u16,
        ) {
            $inner.free_singles(table, owners, cpu);
        }
    };
    (@ maintain $self:ident $inner:expr) => {
        fn maintain(&mut $self, table: &mut $crate::FrameTable) {
            $inner.maintain(table);
        }
    };
    (@ observe $self:ident $inner:expr) => {
        fn observe(&mut $self, around: $crate::placement::Surroundings) {
            $inner.observe(around);
        }
    };
    (@ take_boost $self:ident $inner:expr) => {
        fn take_boost(&mut $self) -> u64 {
            $inner.take_boost()
        }
    };
    (@ free_for $self:ident $inner:expr) => {
        fn free_for(&$self, mobility: $crate::Mobility) -> Option<u64> {
            $inner.free_for(mobility)
        }
    };
    (@ pin_block $self:ident $inner:expr) => {
        fn pin_block(
            &mut $self,
            table: &mut $crate::FrameTable,
            owner: $crate::table::Owner,
            order: $crate::Order,
        ) -> bool {
            $inner.pin_block(table, owner, order)
        }
    };
    (@ unpin_block $self:ident $inner:expr) => {
        fn unpin_block(
            &mut $self,
            table: &mut $crate::FrameTable,
            owner: $crate::table::Owner,
            order: $crate::Order,
        ) {
            $inner.unpin_block(table, owner, order);
        }
    };
    (@ free_blocks $self:ident $inner:expr) => {
        fn free_blocks(&$self, zone: usize) -> Vec<($crate::MigrateType, Vec<u64>)> {
            $inner.free_blocks(zone)
        }
    };
    (@ pageblocks $self:ident $inner:expr) => {
        fn pageblocks(&$self, zone: usize) -> Option<[u64; $crate::MigrateType::ALL.len()]> {
            $inner.pageblocks(zone)
        }
    };
    (@ free_frames $self:ident $inner:expr) => {
        fn free_frames(&$self, zone: usize) -> u64 {
            $inner.free_frames(zone)
        }
    };
    (@ cached_frames $self:ident $inner:expr) => {
        fn cached_frames(&$self) -> u64 {
            $inner.cached_frames()
        }
    };
    (@ counters $self:ident $inner:expr) => {
        fn counters(&$self) -> Vec<$crate::placement::Counter> {
            $inner.counters()
        }
    };
    (@ validate $self:ident $inner:expr) => {
        fn validate(&$self, table: &$crate::FrameTable) {
            $inner.validate(table);
        }
    };
    (@ attempt $self:ident $inner:expr) => {
        fn attempt(
            &mut $self,
            table: &mut $crate::FrameTable,
            request: &$crate::placement::Request,
            owner: $crate::table::Owner,
            depth: $crate::placement::zonelist::Depth,
        ) -> Option<$crate::Frame> {
            $inner.attempt(table, request, owner, depth)
        }
    };
    (@ free_counts $self:ident $inner:expr) => {
        fn free_counts(&$self, zone: usize) -> [u64; $crate::free_area::ORDERS] {
            $inner.free_counts(zone)
        }
    };
    (@ movable_counts $self:ident $inner:expr) => {
        fn movable_counts(&$self, zone: usize) -> [u64; $crate::free_area::ORDERS] {
            $inner.movable_counts(zone)
        }
    };
    (@ watermark_ok $self:ident $inner:expr) => {
        fn watermark_ok(
            &$self,
            zone: usize,
            order: $crate::Order,
            mark: u64,
            highest: $crate::ZoneKind,
        ) -> bool {
            $inner.watermark_ok(zone, order, mark, highest)
        }
    };
    (@ drain $self:ident $inner:expr) => {
        fn drain(&mut $self, table: &mut $crate::FrameTable) {
            $inner.drain(table);
        }
    };
    (@ may_mix $self:ident $inner:expr) => {
        fn may_mix(&mut $self, allowed: bool) {
            $inner.may_mix(allowed);
        }
    };
    (@ take_block $self:ident $inner:expr) => {
        fn take_block(
            &mut $self,
            table: &mut $crate::FrameTable,
            frame: $crate::Frame,
        ) -> $crate::Order {
            $inner.take_block(table, frame)
        }
    };
    (@ give_block $self:ident $inner:expr) => {
        fn give_block(
            &mut $self,
            table: &mut $crate::FrameTable,
            frame: $crate::Frame,
            order: $crate::Order,
        ) {
            $inner.give_block(table, frame, order);
        }
    };
    (@ give_up $self:ident $inner:expr) => {
        fn give_up(
            &mut $self,
            table: &mut $crate::FrameTable,
            range: ::core::ops::Range<$crate::Frame>,
        ) {
            $inner.give_up(table, range);
        }
    };
    (@ is_spared $self:ident $inner:expr) => {
        fn is_spared(&$self, frame: $crate::Frame) -> bool {
            $inner.is_spared(frame)
        }
    };
    (@ zone_at $self:ident $inner:expr) => {
        fn zone_at(&$self, frame: $crate::Frame) -> Option<usize> {
            $inner.zone_at(frame)
        }
    };
    (@ pageblock_type $self:ident $inner:expr) => {
        fn pageblock_type(&$self, frame: $crate::Frame) -> $crate::MigrateType {
            $inner.pageblock_type(frame)
        }
    };
    (@ boost $self:ident $inner:expr) => {
        fn boost(&$self, zone: usize) -> u64 {
            $inner.boost(zone)
        }
    };
    (@ end_boost $self:ident $inner:expr) => {
        fn end_boost(&mut $self, zone: usize) {
            $inner.end_boost(zone);
        }
    };
    (@ set_reclaim_active $self:ident $inner:expr) => {
        fn set_reclaim_active(&mut $self, zone: usize, active: bool) {
            $inner.set_reclaim_active(zone, active);
        }
    };
    ($self:ident => $inner:expr; $($method:ident),+ $(,)?) => {
        $($crate::__forward_placement!(@ $method $self $inner);)+
    };
}

pub use __forward_placement as forward;
