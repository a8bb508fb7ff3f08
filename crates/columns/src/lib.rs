#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{KeyValue, RowGroupMetaData};
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{Type, TypePtr};

/// Where a file goes.
type Sink<'a> = Box<dyn Write + Send + 'a>;

/// The values of a column in a group of rows. Of an optional column only those that are there.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// 32-bit integers.
    Int32(&'a [i32]),
    /// 64-bit integers.
    Int64(&'a [i64]),
    /// Floating-point numbers.
    Double(&'a [f64]),
    /// Bytes, or texts as UTF-8.
    Bytes(&'a [ByteArray]),
}

/// A group of rows, which takes one column after the other.
pub trait Group {
    /// Writes the next column. `levels` are the definition levels of an optional one: for each row 1
    /// if it has a value, else 0.
    ///
    /// # Errors
    /// If the schema has no further column, or the file cannot be written.
    ///
    /// # Panics
    /// If the column is of another type.
    fn write(&mut self, values: Values<'_>, levels: Option<&[i16]>) -> Result<()>;
}

/// What fills a group.
pub type Fill<'f> = &'f mut dyn FnMut(&mut dyn Group) -> Result<()>;

/// A Parquet file that is being written.
pub struct Writer<'a>(Box<dyn Parquet + Send + 'a>);

/// A file of the library. Behind a trait, so that the code that drops one is compiled here, too.
trait Parquet {
    fn group(&mut self, fill: Fill) -> Result<()>;
    fn flush(&mut self) -> io::Result<()>;
    fn last_group(&self) -> Option<&RowGroupMetaData>;
    fn append(&mut self, pair: KeyValue);
    fn finish(self: Box<Self>) -> Result<()>;
}

impl<'a> Writer<'a> {
    /// Begins a file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn new(to: Sink<'a>, schema: TypePtr, properties: WriterProperties) -> Result<Writer<'a>> {
        let file = SerializedFileWriter::new(to, schema, WriterPropertiesPtr::new(properties))?;
        Ok(Writer(Box::new(file)))
    }

    /// Writes a group of rows. Each column of the schema has to be filled, in order.
    ///
    /// # Errors
    /// If a column is missing, columns have different lengths, or the file cannot be written.
    pub fn group(&mut self, fill: Fill) -> Result<()> {
        self.0.group(fill)
    }

    /// Hands to the file what is still buffered of the groups that were written.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    /// The group written last.
    pub fn last_group(&self) -> Option<&RowGroupMetaData> {
        self.0.last_group()
    }

    /// Adds a pair to the metadata.
    pub fn append(&mut self, key: &str, value: String) {
        self.0.append(KeyValue::new(key.to_owned(), value));
    }

    /// Completes the file, with the provenance of this process.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> Result<()> {
        if let Some((key, value)) = prairie_provenance::pair() {
            self.append(&key, value);
        }
        self.0.finish()
    }
}

impl Parquet for SerializedFileWriter<Sink<'_>> {
    fn group(&mut self, fill: Fill) -> Result<()> {
        let mut group = Columns(self.next_row_group()?);
        fill(&mut group)?;
        group.0.close().map(drop)
    }

    fn flush(&mut self) -> io::Result<()> {
        SerializedFileWriter::flush(self)
    }

    fn last_group(&self) -> Option<&RowGroupMetaData> {
        self.flushed_row_groups().last()
    }

    fn append(&mut self, pair: KeyValue) {
        self.append_key_value_metadata(pair);
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        // Unlike `into_inner`, this keeps the cause of an error.
        SerializedFileWriter::finish(&mut *self).map(drop)
    }
}

struct Columns<'g, 'a>(SerializedRowGroupWriter<'g, Sink<'a>>);

impl Columns<'_, '_> {
    fn next<T: DataType>(&mut self, values: &[T::T], levels: Option<&[i16]>) -> Result<()> {
        let Some(mut column) = self.0.next_column()? else {
            return Err(ParquetError::General("more columns than the schema has".to_owned()));
        };
        column.typed::<T>().write_batch(values, levels, None)?;
        column.close()
    }
}

impl Group for Columns<'_, '_> {
    fn write(&mut self, values: Values<'_>, levels: Option<&[i16]>) -> Result<()> {
        match values {
            Values::Int32(values) => self.next::<Int32Type>(values, levels),
            Values::Int64(values) => self.next::<Int64Type>(values, levels),
            Values::Double(values) => self.next::<DoubleType>(values, levels),
            Values::Bytes(values) => self.next::<ByteArrayType>(values, levels),
        }
    }
}

/// The bytes of a file with one group.
///
/// # Errors
/// If a column is missing, or columns have different lengths.
pub fn encode(schema: TypePtr, properties: WriterProperties, fill: Fill) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(Box::new(&mut bytes), schema, properties)?;
    writer.group(fill)?;
    writer.finish()?;
    Ok(bytes)
}

/// A schema as Parquet prints it: `message name { required int64 a; optional double b; }`.
///
/// # Errors
/// If it is no schema.
pub fn schema(text: &str) -> Result<Arc<Type>> {
    parse_message_type(text).map(Arc::new)
}

/// Pairs for the metadata of a file.
pub fn metadata<const N: usize>(pairs: [(&str, String); N]) -> Vec<KeyValue> {
    pairs.map(|(key, value)| KeyValue::new(key.to_owned(), value)).into()
}

/// The values of an optional column that are there, and its definition levels.
pub fn optional<T>(values: impl Iterator<Item = Option<T>>) -> (Vec<T>, Vec<i16>) {
    let (mut there, mut levels) = (Vec::new(), Vec::new());
    for value in values {
        levels.push(i16::from(value.is_some()));
        there.extend(value);
    }
    (there, levels)
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;

    const SCHEMA: &str = "message m { required int32 a; required int64 b; optional double c;
        required binary d (UTF8); }";

    fn fill(group: &mut dyn Group) -> Result<()> {
        let (values, levels) = optional([None, Some(0.5)].into_iter());
        group.write(Values::Int32(&[1, 2]), None)?;
        group.write(Values::Int64(&[3, 4]), None)?;
        group.write(Values::Double(&values), Some(&levels))?;
        group.write(Values::Bytes(&["x".into(), "y".into()]), None)
    }

    #[test]
    fn groups_are_read_back() {
        let mut bytes = Vec::new();
        let properties =
            WriterProperties::builder().set_key_value_metadata(Some(metadata([("k", "v".into())])));
        let properties = properties.build();
        let mut writer =
            Writer::new(Box::new(&mut bytes), schema(SCHEMA).unwrap(), properties).unwrap();
        writer.group(&mut fill).unwrap();
        writer.flush().unwrap();
        assert_eq!(writer.last_group().unwrap().num_rows(), 2);
        writer.group(&mut fill).unwrap();
        writer.append("late", "pair".to_owned());
        writer.finish().unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap();
        let keys: Vec<&str> = pairs.iter().map(|pair| pair.key.as_str()).collect();
        assert!(keys.contains(&"k") && keys.contains(&"late"), "{keys:?}");
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap()).collect();
        assert_eq!(rows.len(), 4);
        assert_eq!((rows[3].get_int(0).unwrap(), rows[3].get_long(1).unwrap()), (2, 4));
        assert!(rows[2].get_double(2).is_err(), "no value");
        assert_eq!(
            (rows[3].get_double(2).unwrap(), rows[3].get_string(3).unwrap()),
            (0.5, &"y".into())
        );
    }

    #[test]
    #[should_panic(expected = "type")]
    fn a_column_of_another_type_panics() {
        let schema = schema("message m { required int32 a; }").unwrap();
        let fill: Fill = &mut |group| group.write(Values::Double(&[1.0]), None);
        encode(schema, WriterProperties::default(), fill).unwrap();
    }

    #[test]
    fn columns_have_to_match_the_schema() {
        let encoded =
            |fill: Fill| encode(schema(SCHEMA).unwrap(), WriterProperties::default(), fill);
        assert!(encoded(&mut |group| group.write(Values::Int32(&[1]), None)).is_err(), "too few");
        let error = encoded(&mut |group| {
            fill(group)?;
            group.write(Values::Int32(&[1]), None)
        });
        assert!(error.unwrap_err().to_string().contains("more columns"));
        assert!(encoded(&mut fill).is_ok());
    }

    /// A destination that is full.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let properties = WriterProperties::default();
        let written = Writer::new(Box::new(Full), schema(SCHEMA).unwrap(), properties)
            .and_then(|mut writer| writer.group(&mut fill).and_then(|()| writer.finish()));
        let error = written.unwrap_err();
        assert!(matches!(error, ParquetError::External(_)), "{error:?}");
    }
}
