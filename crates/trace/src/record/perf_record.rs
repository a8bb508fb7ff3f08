//! Parser of the records in a perf ring (`perf_event_open(2)`).

/// The sample fields that every event asks for, in the order in which they come: identifier,
/// process and thread, time, CPU; then, if asked for, the call chain; then the tracepoint's record.
/// Records of other types end with the first four (`sample_id_all`).
const SAMPLE_HEAD: usize = 32;

/// One record of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When it was written.
    pub time_ns: u64,
    /// The process that ran.
    pub pid: i32,
    /// The CPU.
    pub cpu: u16,
    /// The body.
    pub body: Body<'a>,
}

/// The body of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// A tracepoint was passed.
    Sample {
        /// The number of the perf event that saw it.
        id: u64,
        /// Return addresses, innermost first, in native byte order; empty where not asked for.
        chain: &'a [u8],
        /// The tracepoint's own record.
        raw: &'a [u8],
    },
    /// A process (not merely one of its threads) got a name.
    Named {
        /// The process.
        pid: i32,
        /// The name, padded with zeros.
        name: [u8; 16],
    },
    /// A process was forked.
    Forked {
        /// The new process.
        pid: i32,
        /// Its parent, whose name it has.
        parent: i32,
    },
    /// A process (its first thread) ended.
    Exited {
        /// The process.
        pid: i32,
    },
    /// There was no room for this many records.
    Lost {
        /// How many.
        count: u64,
    },
    /// Something that a trace has no use for.
    Other,
}

// `enum perf_event_type` of `include/uapi/linux/perf_event.h`.
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;

/// Parses the bytes after a record's header; `chained` is whether the perf event with a number
/// records call chains. `None` if they are too short to be what they claim to be.
pub fn parse<'a>(kind: u32, bytes: &'a [u8], chained: impl Fn(u64) -> bool) -> Option<Record<'a>> {
    if kind == SAMPLE {
        return parse_sample(bytes, chained);
    }
    let tail = bytes.len().checked_sub(SAMPLE_HEAD)?;
    let (fields, tail) = bytes.split_at(tail);
    // The trailer's order differs from a sample's head: process, time, CPU, identifier.
    let (pid, time_ns, cpu) = (i32_at(tail, 0)?, u64_at(tail, 8)?, u32_at(tail, 16)?);
    let body = match kind {
        LOST => Body::Lost { count: u64_at(fields, 8)? },
        LOST_SAMPLES => Body::Lost { count: u64_at(fields, 0)? },
        COMM if i32_at(fields, 0)? == i32_at(fields, 4)? => {
            let comm = fields.get(8..)?;
            let mut name = [0; 16];
            let length = comm.len().min(16);
            name[..length].copy_from_slice(&comm[..length]);
            Body::Named { pid: i32_at(fields, 0)?, name }
        }
        FORK if i32_at(fields, 0)? != i32_at(fields, 4)? => {
            Body::Forked { pid: i32_at(fields, 0)?, parent: i32_at(fields, 4)? }
        }
        EXIT if i32_at(fields, 0)? == i32_at(fields, 8)? => {
            Body::Exited { pid: i32_at(fields, 0)? }
        }
        _ => Body::Other,
    };
    Some(Record { time_ns, pid, cpu: cpu as u16, body })
}

fn parse_sample(bytes: &[u8], chained: impl Fn(u64) -> bool) -> Option<Record<'_>> {
    let id = u64_at(bytes, 0)?;
    let (pid, time_ns, cpu) = (i32_at(bytes, 8)?, u64_at(bytes, 16)?, u32_at(bytes, 24)?);
    let mut rest = bytes.get(SAMPLE_HEAD..)?;
    let mut chain = &rest[..0];
    if chained(id) {
        let length = usize::try_from(u64_at(rest, 0)?).ok()?.checked_mul(8)?;
        chain = rest.get(8..)?.get(..length)?;
        rest = &rest[8 + length..];
    }
    let length = u32_at(rest, 0)? as usize;
    let raw = rest.get(4..)?.get(..length)?;
    Some(Record { time_ns, pid, cpu: cpu as u16, body: Body::Sample { id, chain, raw } })
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    u32_at(bytes, at).map(|bits| bits as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    fn pair(low: u32, high: u32) -> u64 {
        u64::from_ne_bytes([low.to_ne_bytes(), high.to_ne_bytes()].concat().try_into().unwrap())
    }

    #[test]
    fn a_sample_with_and_without_a_chain() {
        let head = [7, pair(41, 42), 1_000, pair(3, 0)];
        let plain = [words(&head), 4u32.to_ne_bytes().to_vec(), b"abcd".to_vec()].concat();
        let record = parse(SAMPLE, &plain, |_| false).unwrap();
        assert_eq!((record.time_ns, record.pid, record.cpu), (1_000, 41, 3));
        assert_eq!(record.body, Body::Sample { id: 7, chain: &[], raw: b"abcd" });
        let chained = [words(&head), words(&[2, 10, 11]), 0u32.to_ne_bytes().to_vec()].concat();
        let record = parse(SAMPLE, &chained, |id| id == 7).unwrap();
        assert_eq!(record.body, Body::Sample { id: 7, chain: &words(&[10, 11]), raw: &[] });
    }

    #[test]
    fn names_forks_and_losses() {
        let tail = [pair(41, 41), 5_000, pair(1, 0), 7];
        let record = |kind, fields: &[u64]| {
            let bytes = [words(fields), words(&tail)].concat();
            let record = parse(kind, &bytes, |_| false).unwrap();
            assert_eq!((record.time_ns, record.pid, record.cpu), (5_000, 41, 1));
            match record.body {
                Body::Sample { .. } => unreachable!(),
                Body::Named { pid, name } => format!("{pid} {}", name[0] as char),
                other => format!("{other:?}"),
            }
        };
        let name = u64::from_ne_bytes(*b"tar\0\0\0\0\0");
        assert_eq!(record(COMM, &[pair(41, 41), name]), "41 t");
        assert_eq!(record(COMM, &[pair(41, 43), name]), "Other");
        assert_eq!(record(FORK, &[pair(44, 41), 0, 0]), "Forked { pid: 44, parent: 41 }");
        assert_eq!(record(FORK, &[pair(41, 41), 0, 0]), "Other");
        assert_eq!(record(EXIT, &[pair(44, 41), pair(44, 41), 0]), "Exited { pid: 44 }");
        assert_eq!(record(EXIT, &[pair(44, 41), pair(45, 41), 0]), "Other");
        assert_eq!(record(LOST, &[7, 99]), "Lost { count: 99 }");
        assert_eq!(record(LOST_SAMPLES, &[98]), "Lost { count: 98 }");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_survived(
            kind in 0u32..20,
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..120),
        ) {
            let _ = parse(kind, &bytes, |id| id % 2 == 0);
        }
    }
}
