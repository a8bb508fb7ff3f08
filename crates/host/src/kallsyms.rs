//! `/proc/kallsyms`: the kernel function that contains an address (`s_show`, `kernel/kallsyms.c`).
//!
//! The table keeps functions only (symbol types `t`, `T`, `w`, `W`), for what asks are return
//! addresses on stacks. Without root, or with `kernel.kptr_restrict` at 2, the kernel writes
//! zeros for addresses; then there is no table but an error that says how to get one.

use crate::error::{Error, ParseError};
use crate::texts::lines;

/// The file, as a capture names it.
pub const FILE: &str = "proc/kallsyms";

/// Functions by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kallsyms {
    /// Ascending by address; of functions at one address the first in the file comes first.
    symbols: Vec<SymbolEntry>,
    /// All names after one another.
    names: String,
    /// Modules' names.
    modules: Vec<String>,
}

/// One function: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SymbolEntry {
    address: u64,
    /// Where its name starts in `names`.
    name_start: u32,
    name_bytes: u16,
    /// Place in `modules` plus one; 0 for the kernel itself.
    module: u16,
}

/// A function that contains an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// The function's name.
    pub name: &'a str,
    /// Its module, `None` for the kernel itself. BPF programs have the module `bpf`.
    pub module: Option<&'a str>,
    /// Bytes from the function's start.
    pub offset_bytes: u64,
}

impl Kallsyms {
    /// Parses the whole file: `n log n` in its lines, about 40 bytes a function.
    ///
    /// # Errors
    /// [`Error::Parse`] where a line is not `address type name`, with `[module]` after it or not,
    /// [`Error::HiddenAddresses`] where every function's address is zero (or there is none).
    pub fn parse(text: &str) -> Result<Kallsyms, Error> {
        let mut table = Kallsyms::default();
        for line in lines(FILE, text) {
            let expected = "\"address type name\", perhaps \"[module]\"";
            let mut words = line.text.split_ascii_whitespace();
            let address = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
            let (Some(address), Some(kind), Some(name)) = (address, words.next(), words.next())
            else {
                return Err(line.error(expected).into());
            };
            let module = match words.next() {
                None => 0,
                Some(word) => word
                    .strip_prefix('[')
                    .and_then(|rest| rest.strip_suffix(']'))
                    .and_then(|name| table.module(name))
                    .ok_or_else(|| line.error(expected))?,
            };
            if matches!(kind, "t" | "T" | "w" | "W") && address != 0 {
                table.push(address, name, module).ok_or_else(|| too_large(line.error("")))?;
            }
        }
        if table.symbols.is_empty() {
            return Err(Error::HiddenAddresses);
        }
        table.symbols.sort_by_key(|symbol| symbol.address);
        Ok(table)
    }

    /// The number of the module `name`, new or known; `None` beyond 65,535 modules. Modules come
    /// one after the other in the file, so the last is tried first.
    fn module(&mut self, name: &str) -> Option<u16> {
        let place = self.modules.iter().rposition(|known| known == name).unwrap_or_else(|| {
            self.modules.push(name.to_owned());
            self.modules.len() - 1
        });
        u16::try_from(place + 1).ok()
    }

    /// Appends a function; `None` where names exceed what 32 bits can index.
    fn push(&mut self, address: u64, name: &str, module: u16) -> Option<()> {
        let name_start = u32::try_from(self.names.len()).ok()?;
        let name_bytes = u16::try_from(name.len()).ok()?;
        self.names.push_str(name);
        self.symbols.push(SymbolEntry { address, name_start, name_bytes, module });
        Some(())
    }

    /// How many functions there are.
    pub fn len(&self) -> usize {
        self.symbols.len()
    }

    /// Whether there is none; never so for a table that [`Kallsyms::parse`] gave.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// The function that contains `address`: the last that starts at or before it. `None` below the
    /// first. The file gives no sizes, so an address beyond the last function counts to it, and a
    /// gap to the function before it. Of several functions at one address, the first in the file.
    /// Logarithmic.
    pub fn lookup(&self, address: u64) -> Option<Symbol<'_>> {
        let after = self.symbols.partition_point(|symbol| symbol.address <= address);
        let start = self.symbols.get(after.checked_sub(1)?)?.address;
        let first = self.symbols[..after].partition_point(|symbol| symbol.address < start);
        let symbol = self.symbols[first];
        let name_start = symbol.name_start as usize;
        Some(Symbol {
            name: &self.names[name_start..name_start + usize::from(symbol.name_bytes)],
            module: usize::from(symbol.module).checked_sub(1).map(|at| self.modules[at].as_str()),
            offset_bytes: address - start,
        })
    }
}

/// The error of a table beyond the limits of its numbers.
fn too_large(error: ParseError) -> ParseError {
    ParseError { expected: "names of less than 64 KiB each and 4 GiB together".to_owned(), ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81001000 T _stext
ffffffff81001000 T _text
ffffffff81000000 T startup_64
ffffffff81002000 t helper.isra.0
ffffffff82400000 D jiffies
ffffffffc0001000 t xfs_read\t[xfs]
ffffffffc0000800 t ext4_read\t[ext4]
ffffffffc0001800 T xfs_write\t[xfs]
";

    #[test]
    fn the_function_around_an_address() {
        let table = Kallsyms::parse(TEXT).unwrap();
        let at = |address| table.lookup(address).map(|f| (f.name, f.module, f.offset_bytes));
        assert_eq!(table.len(), 7);
        assert_eq!(at(0xffff_ffff_8100_0fff), Some(("startup_64", None, 0xfff)));
        assert_eq!(at(0xffff_ffff_8100_1000), Some(("_stext", None, 0)));
        assert_eq!(at(0xffff_ffff_8100_1010), Some(("_stext", None, 0x10)));
        assert_eq!(at(0xffff_ffff_8100_2001), Some(("helper.isra.0", None, 1)));
        assert_eq!(at(0xffff_ffff_c000_0801), Some(("ext4_read", Some("ext4"), 1)));
        assert_eq!(at(0xffff_ffff_c000_1fff), Some(("xfs_write", Some("xfs"), 0x7ff)));
        assert_eq!(at(u64::MAX).map(|found| found.0), Some("xfs_write"));
        assert_eq!(at(0x1000), None);
    }

    #[test]
    fn hidden_addresses_say_what_to_do() {
        let error = Kallsyms::parse("0000000000000000 T _text\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "proc/kallsyms: every address is zero; run as root, or lower kernel.kptr_restrict \
             to 0 or 1"
        );
        assert!(matches!(Kallsyms::parse(""), Err(Error::HiddenAddresses)));
    }

    #[test]
    fn errors_say_where() {
        for bad in ["x T name", "1 T", "1", "1 t name xfs", "1 t name [xfs"] {
            let text = format!("1 T fine\n{bad}\n");
            let error = Kallsyms::parse(&text).unwrap_err();
            assert!(error.to_string().starts_with("proc/kallsyms, line 2: expected"), "{error}");
        }
    }
}
