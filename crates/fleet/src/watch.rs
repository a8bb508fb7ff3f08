//! A server that is sampled during its life, under a placement of the caller's choice.
//!
//! [`Study::server`] gives the final state. Comparisons of policies also need peaks, what they
//! counted, and systems that have no name: with other settings, or with something around them.

use prairie_frames::placement::Placement;
use prairie_frames::{FrameTable, Layout};

use crate::server::{Failures, Server};
use crate::study::Study;

/// A server at one instant.
pub struct Look<'a, P> {
    /// Seconds since boot.
    pub seconds: f64,
    /// The state of every frame.
    pub table: &'a FrameTable,
    /// The system.
    pub placement: &'a P,
    /// Frames of the machine.
    pub frames: u64,
    /// Free frames.
    pub free_frames: u64,
    /// Allocations so far.
    pub allocations: u64,
    /// Requests that failed so far.
    pub failures: Failures,
}

impl Study {
    /// Lets server `number` live for `seconds` under `placement`, made for `layout`, and checks it
    /// after boot and every `interval` seconds.
    pub fn watch<P: Placement>(
        &self,
        number: u64,
        layout: &Layout,
        placement: P,
        seconds: f64,
        every: f64,
        mut look: impl FnMut(Look<'_, P>),
    ) {
        let (workload, random) = (self.workload(number), self.chance(number));
        let mut server = Server::boot(workload, layout, placement, random);
        let mut at = 0.0;
        while at <= seconds {
            server.live_until(at);
            look(Look {
                seconds: at,
                table: &server.table,
                placement: &server.placement,
                frames: server.frames,
                free_frames: server.free,
                allocations: server.allocations,
                failures: server.failures,
            });
            at += every;
        }
        if cfg!(debug_assertions) {
            server.validate();
        }
    }
}
