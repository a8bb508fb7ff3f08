//! Huge pages on request where no daemon runs: the command carries out the request itself.

use std::io;
use std::sync::{Mutex, PoisonError};

use crate::huge::Reserve;
use crate::record::Record;
use crate::request::Request;
use crate::undo::{Undo, make_whole, undo};

/// Brings the pool to its size; returns the pages that it has. What a killed daemon left behind is made
/// whole first. If its guardian was `relieved`, the command takes over the guardian's duty, too: it
/// returns all blocks, because a kernel region that cannot grow is worse than none. Blocks with pages
/// of the pool stay where they are.
///
/// # Errors
/// I/O errors of the system.
pub fn without_daemon(
    mut record: Record,
    work: &Undo<'_>,
    request: Request,
    relieved: bool,
) -> io::Result<u64> {
    make_whole(&mut record, work)?;
    let record = Mutex::new(record);
    let reserve = Reserve {
        roots: work.roots,
        files: work.files.clone(),
        log: work.log,
        node: request.node,
        operation_time: work.operation_time,
        stop: work.stop,
    };
    let reserved = reserve.reserve(&record, request.bytes, request.pages);
    let mut record = record.into_inner().unwrap_or_else(PoisonError::into_inner);
    if relieved {
        let undone = undo(&mut record, work)?;
        for (block, why) in &undone.left {
            work.log.note("warning", format_args!("block {block} remains converted: {why}"));
        }
    }
    record.end();
    reserved
}
