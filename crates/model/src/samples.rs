//! Samples of several allocators as Parquet: a row for each allocator and instant.

use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

/// A column that counts: its name, and its value in a sample.
pub type Count<S> = (&'static str, fn(&S) -> u64);

/// The columns of samples of type `S`. The first is `system`, the allocator with its options.
pub struct Columns<S: 'static> {
    /// The name of the Parquet schema.
    pub message: &'static str,
    /// The key of the version in the file's metadata.
    pub version_key: &'static str,
    /// The version of the columns.
    pub version: u32,
    /// The second column, `unusable_2_mib`: F_u(9).
    pub unusable: fn(&S) -> f64,
    /// The other columns.
    pub counts: &'static [Count<S>],
}

impl<S> Columns<S> {
    /// The contents of a file with the samples of each system.
    ///
    /// # Errors
    /// If they cannot be encoded.
    pub fn encode<'a>(&self, systems: impl Iterator<Item = (&'a str, &'a [S])>) -> Result<Vec<u8>> {
        let rows: Vec<(&str, &S)> = systems
            .flat_map(|(system, samples)| samples.iter().map(move |sample| (system, sample)))
            .collect();
        let schema = Arc::new(parse_message_type(&self.schema())?);
        let mut writer =
            SerializedFileWriter::new(Vec::new(), schema, Arc::new(self.properties()))?;
        let mut group = writer.next_row_group()?;
        let systems = rows.iter().map(|(system, _)| ByteArray::from(*system));
        write::<ByteArrayType>(&mut group, systems.collect())?;
        let unusable = rows.iter().map(|(_, sample)| (self.unusable)(sample));
        write::<DoubleType>(&mut group, unusable.collect())?;
        for (_, count) in self.counts {
            let counts = rows.iter().map(|(_, sample)| count(sample) as i64);
            write::<Int64Type>(&mut group, counts.collect())?;
        }
        group.close()?;
        writer.into_inner()
    }

    fn schema(&self) -> String {
        let counts = self.counts.iter().map(|(name, _)| format!("required int64 {name};\n"));
        format!(
            "message {} {{
                required binary system (UTF8);
                required double unusable_2_mib;
                {}
            }}",
            self.message,
            counts.collect::<String>()
        )
    }

    fn properties(&self) -> WriterProperties {
        let version = (self.version_key.to_owned(), self.version.to_string());
        let pairs = [version].into_iter().chain(prairie_provenance::pair());
        let pairs = pairs.map(|(key, value)| KeyValue::new(key, value)).collect();
        WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(pairs))
            .build()
    }
}

fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: Vec<T::T>,
) -> Result<()> {
    let mut column = group.next_column()?.expect("the schema has a column for each write");
    column.typed::<T>().write_batch(&values, None, None)?;
    column.close()
}
