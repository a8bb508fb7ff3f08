//! Call chains as texts.

use prairie_host::Kallsyms;

/// A call chain as a folded stack: functions from the outermost to the innermost, joined by `;`,
/// those of modules followed by the module in brackets (`virtnet_poll [virtio_net]`).
///
/// `chain` has the innermost first, as the kernel gives it; its markers that say whether addresses
/// are the kernel's or a program's (`PERF_CONTEXT_*`) are left out. Addresses of no function are
/// written as numbers.
pub fn fold(symbols: &Kallsyms, chain: &[u64]) -> String {
    const MARKERS: u64 = -4095i64 as u64;
    let addresses = chain.iter().rev().filter(|&&address| address < MARKERS);
    let names = addresses.map(|&address| match symbols.lookup(address) {
        Some(found) => match found.module {
            Some(module) => format!("{} [{module}]", found.name),
            None => found.name.to_owned(),
        },
        None => format!("{address:#x}"),
    });
    names.collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_outermost_first_without_markers() {
        let text = "ffffffff81000000 T first\nffffffff81000100 t second\n\
                    ffffffffc0000000 t third\t[mod]\n";
        let symbols = Kallsyms::parse(text).unwrap();
        let user = -512i64 as u64;
        let chain = [-128i64 as u64, 0xffff_ffff_c000_0004, 0xffff_ffff_8100_0104, user, 0x10];
        assert_eq!(fold(&symbols, &chain), "0x10;second;third [mod]");
        assert_eq!(fold(&symbols, &[]), "");
    }
}
