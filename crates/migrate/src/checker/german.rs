//! German's cache protocol with data, by which model checkers are compared.
//!
//! A directory grants one line to N caches, shared or exclusive, over three channels of one message
//! each: requests (1), grants and invalidations (2), acknowledgements (3). Published in many forms
//! since 2000; this one has two values of data, and memory starts with the first. Independent
//! checkers agree on 58 077 states for 3 caches and 1 105 353 for 4.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::model::Model;

/// The protocol for `N` caches, with or without symmetry.
#[derive(Clone, Copy, Debug, Default)]
pub struct German<const N: usize> {
    /// Whether states that differ only in the caches' names count as one.
    pub symmetry: bool,
}

/// A message that asks for the line, or the request being served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Request {
    /// No message.
    #[default]
    None,
    /// For reading.
    Shared,
    /// For writing.
    Exclusive,
}

/// The permission of a cache for the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Line {
    /// Nothing.
    #[default]
    Invalid,
    /// Read.
    Shared,
    /// Read and write.
    Exclusive,
}

/// A message to a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Order {
    /// No message.
    #[default]
    None,
    /// Give the line back.
    Invalidate,
    /// Here it is, for reading.
    GrantShared,
    /// Here it is, for writing.
    GrantExclusive,
}

/// A value of the line; 0 is none.
type Data = u8;

/// A cache with its channels and what the directory knows of it, in 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
struct Cache(u32);

/// A field of a packed word.
macro_rules! field {
    ($get:ident, $set:ident, $shift:literal, $bits:literal) => {
        #[inline]
        fn $get(self) -> u8 {
            (self.0 >> $shift) as u8 & ((1 << $bits) - 1)
        }

        #[inline]
        fn $set(&mut self, value: u8) {
            self.0 = self.0 & !(((1 << $bits) - 1) << $shift) | u32::from(value) << $shift;
        }
    };
}

impl Cache {
    field!(line, set_line, 0, 2);
    field!(data, set_data, 2, 2);
    field!(request, set_request, 4, 2);
    field!(order, set_order, 6, 2);
    field!(order_data, set_order_data, 8, 2);
    field!(acked, set_acked, 10, 1);
    field!(ack_data, set_ack_data, 11, 2);
    field!(to_invalidate, set_to_invalidate, 13, 1);
    field!(sharer, set_sharer, 14, 1);
}

/// The directory and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
struct Directory(u32);

impl Directory {
    field!(exclusive, set_exclusive, 0, 1);
    field!(serving, set_serving, 1, 2);
    field!(requester, set_requester, 3, 3);
    field!(memory, set_memory, 6, 2);
    field!(last_written, set_last_written, 8, 2);
}

/// A state of the whole system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State<const N: usize> {
    caches: [Cache; N],
    directory: Directory,
}

impl<const N: usize> Hash for State<N> {
    /// Two caches in a word.
    #[inline]
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let (pairs, rest) = self.caches.as_chunks::<2>();
        for [low, high] in pairs {
            hasher.write_u64(u64::from(low.0) | u64::from(high.0) << 32);
        }
        let odd = rest.first().map_or(0, |cache| cache.0);
        hasher.write_u64(u64::from(odd) | u64::from(self.directory.0) << 32);
    }
}

/// One step; numbers are those of caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in every text on the protocol")]
pub enum Action {
    Store(u8, Data),
    SendRequest(u8, Request),
    ReceiveRequest(u8),
    SendInvalidate(u8),
    Acknowledge(u8),
    ReceiveAcknowledge(u8),
    Grant(u8),
    ReceiveGrant(u8),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// One cache may write, or several read.
    Exclusion,
    /// Reads return the last write.
    Data,
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Property::Exclusion => "one cache may write, or several read",
            Property::Data => "what can be read is what was written last",
        })
    }
}

const SHARED: u8 = Line::Shared as u8;
const EXCLUSIVE: u8 = Line::Exclusive as u8;

impl<const N: usize> State<N> {
    /// Steps of the cache `i` and of its end of the channels.
    #[inline]
    fn cache_steps(&self, i: usize, emit: &mut impl FnMut(Action, State<N>)) {
        let cache = self.caches[i];
        let name = i as u8;
        if cache.line() == EXCLUSIVE {
            for data in 1..=2 {
                let mut next = *self;
                next.caches[i].set_data(data);
                next.directory.set_last_written(data);
                emit(Action::Store(name, data), next);
            }
        }
        if cache.request() == Request::None as u8 && cache.line() != EXCLUSIVE {
            for request in [Request::Shared, Request::Exclusive] {
                if request == Request::Shared && cache.line() == SHARED {
                    continue;
                }
                let mut next = *self;
                next.caches[i].set_request(request as u8);
                emit(Action::SendRequest(name, request), next);
            }
        }
        if cache.order() == Order::Invalidate as u8 && cache.acked() == 0 {
            let mut next = *self;
            let own = &mut next.caches[i];
            own.set_order(Order::None as u8);
            own.set_acked(1);
            if cache.line() == EXCLUSIVE {
                own.set_ack_data(cache.data());
            }
            own.set_line(0);
            own.set_data(0);
            emit(Action::Acknowledge(name), next);
        }
        if cache.order() >= Order::GrantShared as u8 {
            let mut next = *self;
            let own = &mut next.caches[i];
            own.set_line(if cache.order() == Order::GrantShared as u8 {
                SHARED
            } else {
                EXCLUSIVE
            });
            own.set_data(cache.order_data());
            own.set_order(Order::None as u8);
            own.set_order_data(0);
            emit(Action::ReceiveGrant(name), next);
        }
    }

    /// Steps of the directory that concern the cache `i`.
    #[inline]
    fn directory_steps(&self, i: usize, emit: &mut impl FnMut(Action, State<N>)) {
        let (cache, directory) = (self.caches[i], self.directory);
        let name = i as u8;
        let serving = directory.serving();
        if serving == Request::None as u8 {
            if cache.request() != Request::None as u8 {
                let mut next = *self;
                next.directory.set_serving(cache.request());
                next.directory.set_requester(name);
                next.caches[i].set_request(Request::None as u8);
                for each in &mut next.caches {
                    each.set_to_invalidate(each.sharer());
                }
                emit(Action::ReceiveRequest(name), next);
            }
            return;
        }
        let invalidates = serving == Request::Exclusive as u8 || directory.exclusive() == 1;
        if cache.order() == Order::None as u8 && cache.to_invalidate() == 1 && invalidates {
            let mut next = *self;
            next.caches[i].set_order(Order::Invalidate as u8);
            next.caches[i].set_to_invalidate(0);
            emit(Action::SendInvalidate(name), next);
        }
        if cache.acked() == 1 {
            let mut next = *self;
            next.caches[i].set_acked(0);
            next.caches[i].set_sharer(0);
            if directory.exclusive() == 1 {
                next.directory.set_exclusive(0);
                next.directory.set_memory(cache.ack_data());
            }
            next.caches[i].set_ack_data(0);
            emit(Action::ReceiveAcknowledge(name), next);
        }
        self.grant(i, emit);
    }

    #[inline]
    fn grant(&self, i: usize, emit: &mut impl FnMut(Action, State<N>)) {
        let (cache, directory) = (self.caches[i], self.directory);
        let waits = usize::from(directory.requester()) == i && cache.order() == Order::None as u8;
        if !waits || directory.exclusive() == 1 {
            return;
        }
        let exclusive = directory.serving() == Request::Exclusive as u8;
        if exclusive && self.caches.iter().any(|each| each.sharer() == 1) {
            return;
        }
        let mut next = *self;
        let order = if exclusive { Order::GrantExclusive } else { Order::GrantShared };
        next.caches[i].set_order(order as u8);
        next.caches[i].set_order_data(directory.memory());
        next.caches[i].set_sharer(1);
        next.directory.set_exclusive(u8::from(exclusive));
        next.directory.set_serving(Request::None as u8);
        next.directory.set_requester(0);
        emit(Action::Grant(i as u8), next);
    }
}

impl<const N: usize> Model for German<N> {
    type State = State<N>;
    type Action = Action;
    type Property = Property;

    fn initial(&self) -> Vec<State<N>> {
        let mut directory = Directory::default();
        directory.set_memory(1);
        directory.set_last_written(1);
        vec![State { caches: [Cache::default(); N], directory }]
    }

    #[inline]
    fn successors(&self, state: &State<N>, emit: &mut impl FnMut(Action, State<N>)) {
        for i in 0..N {
            state.cache_steps(i, emit);
            state.directory_steps(i, emit);
        }
    }

    #[inline]
    fn violated(&self, state: &State<N>) -> Option<Property> {
        let readers = state.caches.iter().filter(|cache| cache.line() == SHARED).count();
        let writers = state.caches.iter().filter(|cache| cache.line() == EXCLUSIVE).count();
        if writers > 1 || writers == 1 && readers > 0 {
            return Some(Property::Exclusion);
        }
        let last = state.directory.last_written();
        let stale = |cache: &Cache| cache.line() != 0 && cache.data() != last;
        let memory = state.directory.exclusive() == 1 || state.directory.memory() == last;
        (!memory || state.caches.iter().any(stale)).then_some(Property::Data)
    }

    #[inline]
    fn canonical(&self, mut state: State<N>) -> State<N> {
        if self.symmetry {
            // Where a request is served, its cache has to be found again after sorting.
            const REQUESTER: u32 = 1 << 31;
            let serving = state.directory.serving() != 0;
            if serving {
                state.caches[usize::from(state.directory.requester())].0 |= REQUESTER;
            }
            state.caches.sort_unstable();
            if serving {
                let at = state.caches.iter().position(|cache| cache.0 & REQUESTER != 0);
                let at = at.expect("the requester is one of the caches");
                state.caches[at].0 &= !REQUESTER;
                state.directory.set_requester(at as u8);
            }
        }
        state
    }
}
