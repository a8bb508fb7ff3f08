//! The kernel's functions by address, from `/proc/kallsyms`.

use std::fs;
use std::io;
use std::path::Path;

/// The functions of a running kernel and its modules.
#[derive(Clone, Debug, Default)]
pub struct Kallsyms {
    /// Addresses, ascending, and where each name lies in `names`.
    functions: Vec<(u64, u32, u16)>,
    names: String,
}

impl Kallsyms {
    /// Reads the symbols.
    ///
    /// # Errors
    /// The system's, or one that says that the kernel hides the addresses.
    pub fn read(path: &Path) -> io::Result<Kallsyms> {
        let symbols = Kallsyms::parse(&fs::read_to_string(path)?);
        if symbols.functions.is_empty() {
            return Err(io::Error::other("the kernel hides its symbols' addresses"));
        }
        Ok(symbols)
    }

    /// Parses `ffffffff81000000 T name [module]`; lines of another form, data symbols and hidden
    /// addresses (all zeros) are passed over.
    pub fn parse(text: &str) -> Kallsyms {
        let mut symbols = Kallsyms::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            let start = symbols.names.len() as u32;
            if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
                continue;
            }
            let Ok(length) = u16::try_from(name.len()) else { continue };
            symbols.names.push_str(name);
            symbols.functions.push((address, start, length));
        }
        symbols.functions.sort_by_key(|&(address, ..)| address);
        symbols
    }

    /// The function that holds `address`: the last that starts at or before it.
    pub fn function(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|&(start, ..)| start <= address);
        let (_, start, length) = self.functions[after.checked_sub(1)?];
        Some(&self.names[start as usize..start as usize + length as usize])
    }

    /// A call chain as a folded stack: functions from the outermost to the innermost, joined by
    /// `;`. `chain` has the innermost first, as the kernel gives it; its markers that say whether
    /// addresses are the kernel's or a program's (`PERF_CONTEXT_*`) are left out.
    pub fn fold(&self, chain: &[u64]) -> String {
        const MARKERS: u64 = -4095i64 as u64;
        let addresses = chain.iter().rev().filter(|&&address| address < MARKERS);
        let names = addresses.map(|&address| match self.function(address) {
            Some(name) => name.to_owned(),
            None => format!("{address:#x}"),
        });
        names.collect::<Vec<_>>().join(";")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "ffffffff81000100 t second\nffffffff81000000 T first\n\
                        ffffffff81000180 D data\nffffffffc0000000 t in_module\t[mod]\n\
                        0000000000000000 A percpu\nnonsense\n";

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let symbols = Kallsyms::parse(TEXT);
        assert_eq!(symbols.function(0xffff_ffff_8100_0000), Some("first"));
        assert_eq!(symbols.function(0xffff_ffff_8100_00ff), Some("first"));
        assert_eq!(symbols.function(0xffff_ffff_8100_01ff), Some("second"));
        assert_eq!(symbols.function(0xffff_ffff_c000_0010), Some("in_module"));
        assert_eq!(symbols.function(0x1000), None);
    }

    #[test]
    fn folds_outermost_first_without_markers() {
        let chain = [-128i64 as u64, 0xffff_ffff_8100_0104, 0xffff_ffff_8100_0010, 0x10];
        assert_eq!(Kallsyms::parse(TEXT).fold(&chain), "0x10;first;second");
    }

    #[test]
    fn hidden_addresses_are_no_symbols() {
        assert!(Kallsyms::parse("0000000000000000 T _text\n").functions.is_empty());
    }
}
