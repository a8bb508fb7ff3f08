//! One column of one row group: read whole, checked, then decoded.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use parquet::column::page::PageReader;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use prairie_columns::Writer as Columns;

/// The offset and length of a chunk in its file, in bytes. `None` if the footer is invalid.
pub fn byte_range(chunk: &ColumnChunkMetaData) -> Option<(u64, usize)> {
    let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
    let start = u64::try_from(start).ok()?;
    let length = usize::try_from(chunk.compressed_size()).ok()?;
    start.checked_add(length as u64)?;
    Some((start, length))
}

/// Reads the bytes of a chunk. `file_bytes` bounds what a damaged footer can ask for.
pub fn read(file: &File, file_bytes: u64, chunk: &ColumnChunkMetaData) -> io::Result<Vec<u8>> {
    let beyond = || io::Error::new(io::ErrorKind::UnexpectedEof, "it lies beyond the file's end");
    let (start, length) = byte_range(chunk).ok_or_else(beyond)?;
    if start + length as u64 > file_bytes {
        return Err(beyond());
    }
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

/// Writes out what `parquet` has gathered in its last row group, which it wrote to `file`, and
/// returns the checksums of that group's columns.
pub fn checksums(parquet: &mut Columns<'_>, file: &File) -> io::Result<Vec<u32>> {
    parquet.flush()?;
    // The Parquet library keeps its position to itself, so what was just written is read back; it
    // is still in the page cache.
    let file_bytes = file.metadata()?.len();
    let group = parquet.last_group().expect("a group was written");
    let checksum = |chunk| read(file, file_bytes, chunk).map(|bytes| crc32fast::hash(&bytes));
    group.columns().iter().map(checksum).collect()
}

/// The pages of a chunk whose bytes have been read.
pub fn pages(
    bytes: Vec<u8>,
    chunk: &ColumnChunkMetaData,
    rows: usize,
) -> ParquetResult<Box<dyn PageReader>> {
    let start = byte_range(chunk).map_or(0, |(start, _)| start);
    let window = Window { bytes: bytes.into(), start };
    Ok(Box::new(SerializedPageReader::new(Arc::new(window), chunk, rows, None)?))
}

/// A part of a file, addressed as the whole file is.
struct Window {
    bytes: bytes::Bytes,
    start: u64,
}

impl Window {
    fn slice(&self, start: u64, length: Option<usize>) -> ParquetResult<bytes::Bytes> {
        let outside = || ParquetError::EOF("a page lies outside its column".into());
        let from = start.checked_sub(self.start).ok_or_else(outside)? as usize;
        let to = match length {
            Some(length) => from.checked_add(length).ok_or_else(outside)?,
            None => self.bytes.len(),
        };
        if from > to || to > self.bytes.len() {
            return Err(outside());
        }
        Ok(self.bytes.slice(from..to))
    }
}

impl Length for Window {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for Window {
    type T = bytes::buf::Reader<bytes::Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(bytes::Buf::reader(self.slice(start, None)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<bytes::Bytes> {
        self.slice(start, Some(length))
    }
}
