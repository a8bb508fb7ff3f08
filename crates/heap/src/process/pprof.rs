//! The heap profile as a file for `pprof`: a gzipped protocol buffer
//! (`profile.proto` of github.com/google/pprof), written without allocating.

use std::os::fd::{AsFd, BorrowedFd};

use super::output;
use super::settings::Path;
use crate::front::file::File;
use crate::front::profile::{self, FRAMES, MEAN, Sample};
use crate::storage::with_scratch;

/// Strings of the table, by their numbers.
const STRINGS: [&[u8]; 6] = [b"", b"inuse_objects", b"count", b"inuse_space", b"bytes", b"space"];
/// Bytes of `/proc/self/maps` that are read at most.
const MAPS_BYTES: usize = 1 << 20;
const MOST_MAPPINGS: usize = 1024;

/// Writes the live samples to a file.
pub fn write_to(path: &Path) {
    if let Some(file) = output::create(path, "profile") {
        with_scratch(MAPS_BYTES, |text| {
            let len = read_maps(text);
            write(|bytes| write_all(file.as_fd(), bytes), &text[..len], |act| profile::each(act));
        });
    }
}

fn write_all(file: BorrowedFd<'_>, mut bytes: &[u8]) {
    while let Ok(written @ 1..) = rustix::io::write(file, bytes) {
        bytes = &bytes[written..];
    }
}

/// Writes samples of a process, whose `/proc/PID/maps` is `maps`, as a file whose bytes `out` gets in
/// turn. `each` calls its argument with each sample.
pub fn write(out: impl FnMut(&[u8]), maps: &[u8], each: impl FnOnce(&mut dyn FnMut(&Sample))) {
    let mut profile = Gzip::over(out);
    write_profile(&mut profile, maps, each);
    profile.finish();
}

fn read_maps(text: &mut [u8]) -> usize {
    File::open(c"/proc/self/maps").map_or(0, |file| file.read(text))
}

/// A part of a file that is mapped to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping<'a> {
    start: u64,
    end: u64,
    offset: u64,
    file: &'a [u8],
}

/// The mappings of a `/proc/PID/maps` that code lies in.
fn mappings(text: &[u8]) -> impl Iterator<Item = Mapping<'_>> {
    text.split(|&byte| byte == b'\n').filter_map(mapping).take(MOST_MAPPINGS)
}

fn mapping(line: &[u8]) -> Option<Mapping<'_>> {
    let hexadecimal = |text: &[u8]| u64::from_str_radix(core::str::from_utf8(text).ok()?, 16).ok();
    let mut words = line.splitn(6, |&byte| byte == b' ');
    let (range, rights, offset) = (words.next()?, words.next()?, words.next()?);
    let file = words.nth(2)?.trim_ascii_start();
    let dash = range.iter().position(|&byte| byte == b'-')?;
    let (start, end) = (hexadecimal(&range[..dash])?, hexadecimal(&range[dash + 1..])?);
    let code = rights.get(2) == Some(&b'x') && !file.is_empty();
    code.then_some(Mapping { start, end, offset: hexadecimal(offset)?, file })
}

fn write_profile(out: &mut impl Sink, maps: &[u8], each: impl FnOnce(&mut dyn FnMut(&Sample))) {
    for (kind, unit) in [(1, 2), (3, 4)] {
        Message::new().number(1, kind).number(2, unit).emit(1, out);
    }
    let mut samples = 0;
    each(&mut |sample| {
        write_sample(out, maps, sample, samples);
        samples += 1;
    });
    for (number, mapping) in mappings(maps).enumerate() {
        Message::new()
            .number(1, number as u64 + 1)
            .number(2, mapping.start)
            .number(3, mapping.end)
            .number(4, mapping.offset)
            .number(5, (STRINGS.len() + number) as u64)
            .emit(3, out);
    }
    for string in STRINGS.into_iter().chain(mappings(maps).map(|mapping| mapping.file)) {
        emit(6, string, out);
    }
    Message::new().number(1, 5).number(2, 4).emit(11, out);
    let mut period = Message::new();
    period.number(12, MEAN);
    out.put(period.bytes());
}

/// A sample, and a location for each of its frames. The heap's own frames are left out where they
/// lie in a library of its own.
fn write_sample(out: &mut impl Sink, maps: &[u8], sample: &Sample, number: u64) {
    let in_heap = |address: u64| {
        find(maps, address).is_some_and(|(_, mapping)| {
            mapping.file.windows(15).any(|part| part == b"libprairie_heap")
        })
    };
    let own = sample.frames().iter().take_while(|&&address| in_heap(address)).count();
    let own = if own == sample.frames().len() { 0 } else { own };
    let first = number * FRAMES as u64 + 1;
    let mut ids = Message::new();
    for (id, &address) in (first..).zip(&sample.frames()[own..]) {
        ids.varint(id);
        let mut location = Message::new();
        location.number(1, id);
        if let Some((mapping, _)) = find(maps, address) {
            location.number(2, mapping);
        }
        location.number(3, address).emit(4, out);
    }
    let objects = profile::stands_for(sample.size);
    let mut values = Message::new();
    values.varint((objects + 0.5) as u64);
    values.varint((objects * sample.size as f64 + 0.5) as u64);
    let mut message = Message::new();
    message.field(1, ids.bytes()).field(2, values.bytes()).emit(2, out);
}

fn find(maps: &[u8], address: u64) -> Option<(u64, Mapping<'_>)> {
    let holds = |mapping: &Mapping<'_>| (mapping.start..mapping.end).contains(&address);
    (1..).zip(mappings(maps)).find(|(_, mapping)| holds(mapping))
}

/// Where bytes go.
trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

/// A message of the protocol, short enough for the stack.
struct Message {
    bytes: [u8; 1024],
    len: usize,
}

impl Message {
    fn new() -> Message {
        Message { bytes: [0; 1024], len: 0 }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn varint(&mut self, mut value: u64) -> &mut Message {
        while value >= 0x80 {
            self.push(&[value as u8 | 0x80]);
            value >>= 7;
        }
        self.push(&[value as u8]);
        self
    }

    /// A field that is a number.
    fn number(&mut self, field: u64, value: u64) -> &mut Message {
        self.varint(field << 3).varint(value)
    }

    /// A field that is bytes.
    fn field(&mut self, field: u64, bytes: &[u8]) -> &mut Message {
        self.varint(field << 3 | 2).varint(bytes.len() as u64).push(bytes);
        self
    }

    /// Writes the message as a field of the profile.
    fn emit(&self, field: u64, out: &mut impl Sink) {
        emit(field, self.bytes(), out);
    }
}

/// Writes a field of the profile.
fn emit(field: u64, bytes: &[u8], out: &mut impl Sink) {
    let mut head = Message::new();
    head.varint(field << 3 | 2).varint(bytes.len() as u64);
    out.put(head.bytes());
    out.put(bytes);
}

/// Gzip of blocks that are stored, not compressed (RFC 1951, 3.2.4, and RFC 1952): a profile is
/// small, and compressing needs memory.
struct Gzip<W> {
    out: W,
    block: [u8; 8192],
    len: usize,
    crc: u32,
    total: u32,
}

impl<W: FnMut(&[u8])> Gzip<W> {
    fn over(mut out: W) -> Gzip<W> {
        out(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
        Gzip { out, block: [0; 8192], len: 0, crc: !0, total: 0 }
    }

    fn end_block(&mut self, last: bool) {
        let len = (self.len as u16).to_le_bytes();
        (self.out)(&[u8::from(last), len[0], len[1], !len[0], !len[1]]);
        (self.out)(&self.block[..self.len]);
        self.len = 0;
    }

    fn finish(mut self) {
        self.end_block(true);
        (self.out)(&(!self.crc).to_le_bytes());
        (self.out)(&self.total.to_le_bytes());
    }
}

impl<W: FnMut(&[u8])> Sink for Gzip<W> {
    fn put(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.len == self.block.len() {
                self.end_block(false);
            }
            self.block[self.len] = byte;
            self.len += 1;
            self.crc = crc32(self.crc, byte);
        }
        self.total = self.total.wrapping_add(bytes.len() as u32);
    }
}

/// A byte more of the CRC of RFC 1952.
fn crc32(crc: u32, byte: u8) -> u32 {
    (0..8)
        .fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_code_are_understood_and_others_left_out() {
        let text = b"555555554000-555555558000 r-xp 00002000 fe:00 123   /usr/bin/a program\n\
            7ffff7d00000-7ffff7d28000 r--p 00000000 fe:00 124 /usr/lib/libc.so.6\n\
            7ffff7fc0000-7ffff7fc2000 r-xp 00000000 00:00 0 \n\
            nonsense\n\n1-zz r-xp 0 0 0 x";
        let found: Vec<_> = mappings(text).collect();
        let program = Mapping {
            start: 0x5555_5555_4000,
            end: 0x5555_5555_8000,
            offset: 0x2000,
            file: b"/usr/bin/a program",
        };
        assert_eq!(found, [program]);
        assert_eq!(find(text, 0x5555_5555_4000), Some((1, program)));
        assert_eq!(find(text, 0x5555_5555_8000), None);
    }

    #[test]
    fn numbers_are_varints() {
        let mut message = Message::new();
        message.number(1, 300);
        assert_eq!(message.bytes(), [0x08, 0xac, 0x02]);
        let crc = b"123456789".iter().fold(!0, |crc, &byte| crc32(crc, byte));
        assert_eq!(!crc, 0xcbf4_3926);
    }
}
