//! Fuzz targets compile in two ways: under cargo-fuzz they link libFuzzer, otherwise each is a
//! program that runs on the files named as its arguments, for example on an input that crashed.

/// Defines a target: `fuzz_target!(|input: &str| { … })`.
#[cfg(fuzzing)]
pub use libfuzzer_sys::fuzz_target;

/// Defines a target: `fuzz_target!(|input: &str| { … })`.
#[cfg(not(fuzzing))]
#[macro_export]
macro_rules! fuzz_target {
    (|$input:ident: &[u8]| $body:block) => {
        fn main() -> std::io::Result<()> {
            $crate::each_file(|$input| $body)
        }
    };
    (|$input:ident: $type:ty| $body:block) => {
        fn main() -> std::io::Result<()> {
            $crate::each_file(|bytes| {
                let Ok(input) = $crate::arbitrary_input(bytes) else { return };
                let run = |$input: $type| $body;
                run(input);
            })
        }
    };
}

/// Calls `run` with the contents of each file named as an argument.
///
/// # Errors
///
/// A file that cannot be read.
pub fn each_file(run: impl Fn(&[u8])) -> std::io::Result<()> {
    for file in std::env::args_os().skip(1) {
        run(&std::fs::read(file)?);
    }
    Ok(())
}

/// The value that libFuzzer makes of `bytes`.
///
/// # Errors
///
/// Bytes of which no value can be made, for example a `&str` of invalid UTF-8.
pub fn arbitrary_input<'a, T: arbitrary::Arbitrary<'a>>(bytes: &'a [u8]) -> arbitrary::Result<T> {
    T::arbitrary_take_rest(arbitrary::Unstructured::new(bytes))
}
