//! Samples of several allocators as Parquet: a row for each allocator and instant.

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use prairie_columns::{Values, encode, metadata, schema};

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
        encode(schema(&self.schema())?, self.properties(), &mut |group| {
            let systems = rows.iter().map(|(system, _)| ByteArray::from(*system));
            group.write(Values::Bytes(&systems.collect::<Vec<_>>()), None)?;
            let unusable = rows.iter().map(|(_, sample)| (self.unusable)(sample));
            group.write(Values::Double(&unusable.collect::<Vec<_>>()), None)?;
            for (_, count) in self.counts {
                let counts = rows.iter().map(|(_, sample)| count(sample) as i64);
                group.write(Values::Int64(&counts.collect::<Vec<_>>()), None)?;
            }
            Ok(())
        })
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
        let version = (self.version_key, self.version.to_string());
        WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(metadata([version])))
            .build()
    }
}
