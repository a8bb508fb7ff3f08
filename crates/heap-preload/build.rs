//! Links the library to preload with the unwinder that GCC has as an archive.
//!
//! Rust's standard library requires `libgcc_s.so`, which C programs do not need: 100 KB of each
//! process, and one more library to load. A linker script of that name, found before it, names the
//! archive instead.
//!
//! It also puts the code that every process runs side by side. The kernel maps 64 KiB around each
//! place of the text that is touched first, so scattered code makes all of the text resident.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Code that each process runs: the exported functions, the levels of the heap, and the only
/// initializer of Rust's standard library; at a multiple of 64 KiB and shorter than that, so that
/// the kernel maps it as one piece. Rarely used code of the levels goes in front of it, and data
/// that only unwinding reads goes behind data that is always read. The variables that each process
/// writes lie on one page, followed by the table of the CPUs, of which most processes use only the
/// start. Jumps to other libraries (`.plt`) go there, too: the C runtime ends a library through
/// one. Both of Rust's name manglings are matched. The script inserts sections into the linker's
/// default script and replaces nothing.
const SIDE_BY_SIDE: &str = "SECTIONS {
  .text.prairie_seldom : {
    *(.text.*serde_core*)
    *(.text.*7process6malloc11last_resort* .text.*7process6malloc16allocate_aligned*)
    *(.text.*7process6malloc7release* .text.*7process6malloc11usable_size*)
    *(.text.*7process3abi*realloc* .text.*7process3abi*valloc* .text.*7process3abi*memalign*)
    *(.text.*7process10reallocate* .text.*5front4heap*12extend_large* .text.*14truncate_large*)
    *(.text.*PageHeap*6extend* .text.*PageHeap*8truncate* .text.*5front5pages*6resize*)
    *(.text.*7process3abi*aligned_alloc* .text.*7process3abi*mallinfo* .text.*7process3abi*malloc_stats*)
    *(.text.*keep_for_later* .text.*9page_heap6legacy* .text.*9page_heap10page_space*)
    *(.text.*15ensure_capacity* .text.*5front4heap*14allocate_large* .text.*19on_whole_huge_pages*)
    *(.text.*7process7publish5write* .text.*7process10statistics* .text.*7process7collect* .text.*7process14huge_page_mode*)
    *(.text.*5front4heap*10page_state* .text.*5front4heap*11class_state* .text.*PageHeap*5stats*)
    *(.text.*14release_excess* .text.*10subrelease* .text.*12take_emptied* .text.*13note_released*)
    *(.text.*9page_heap10huge_cache*3put*)
    *(.text.*9page_heap7tracker*4free* .text.*9page_heap11huge_filler*4free*)
    *(.text.*9page_heap11huge_filler*6donate*)
    *(.text.*5front5pages*6delete* .text.*PageHeap*6delete* .text.*5front7central*4give*)
    *(.text.*5front4heap*12delete_spans* .text.*5front4heap*12give_central* .text.*Lower*4give*)
    *(.text.*7process6malloc12empty_caches* .text.*7process6malloc16allocate_spanned*)
    *(.text.*7process6malloc13give_up_space* .text.*7process6malloc16release_from_all*)
    *(.text.*7process6malloc18free_class_to_node* .text.*PageHeap*13give_up_space*)
    *(.text.*PageHeap*7release* .text.*5front5pages*7release* .text.*5front4sync*4wait*)
    *(.text.*drop_in_place*ChosenPageHeap* .text.*5front5cache*8overflow*)
    *(.text.*9page_heap9temeraire*14put_into_cache* .text.*14huge_allocator*5stats*)
    *(.text.*9page_heap6demand*4rise*)
    . = ALIGN(65536);
  }
} INSERT BEFORE .init;
SECTIONS { .plt : { *(.plt) *(.iplt) } } INSERT BEFORE .text;
SECTIONS {
  .text.prairie : {
    *crtbegin*.o(.text)
    *(.text.malloc .text.free .text.calloc .text.realloc .text.prairie_rseq_abort)
    *(.text.__libc_calloc .text.__libc_realloc)
    *(.text.*ARGV_INIT_ARRAY*)
    *(.text.*7process10background*start* .text.*7process4fork8register* .text.*7process13possible_cpus*)
    *(.text.*7process8settings5split* .text.*7process8settings8Settings*)
    *(.text.*5front10protocol* .text.*7process7publish4tick* .text.*5front5guard8allocate*)
    *(.text.*7process6malloc* .text.*process..malloc* .text.*7process5setup* .text.*7process4load* .text.*7process3abi*)
    *(.text.*5front6choice* .text.*front..choice*)
    *(.text.*5front5cache* .text.*front..cache* .text.*front..cpu*)
    *(.text.*5front4heap* .text.*front..heap* .text.*5front5pages* .text.*front..pages*)
    *(.text.*5front7central* .text.*5front4span* .text.*5front8page_map* .text.*5front4sync*)
    *(.text.*8Iterator3all5check* .text.*try_trait*Wrapped*)
    *(.text.*9page_heap9temeraire* .text.*page_heap..temeraire*)
    *(.text.*9page_heap6demand* .text.*9page_heap7tracker* .text.*9page_heap7ranking*)
    *(.text.*9page_heap11huge_filler* .text.*9page_heap10huge_cache* .text.*9page_heap14huge_allocator*)
    *(.text.*9page_heap12ranked_lists* .text.*9page_heap10range_tree* .text.*12prairie_heap9page_bits*)
    *(.text.*9page_heap13huge_page_map*)
    *(.text.*12prairie_heap7storage* .text.*heap..storage* .text.*12prairie_heap6memory*)
    *(.text.*heap..memory* .text.*12prairie_heap7mapping*)
    *(.text.*7process7publish* .text.*5front4slab* .text.*5front6inside*)
    *(.text.*5front6thread* .text.*5front7profile5count* .text.*8Iterator6reduce*)
  }
} INSERT BEFORE .text;
SECTIONS {
  .bss.prairie : {
    *(.bss.*7process5setup6SET_UP* .bss.*7process5setup5CHECK*)
    *(.bss.*3std3sys4args*)
    *(.bss.*5front3cpu*)
  }
} INSERT BEFORE .bss;
SECTIONS { .gcc_except_table : { *(.gcc_except_table .gcc_except_table.*) } } INSERT AFTER .eh_frame;
";
/// Functions of the C library that are replaced (`src/uncancelled.rs`).
const WRAPPED: [&str; 6] = ["open", "open64", "close", "read", "write", "writev"];
/// Bytes that the kernel maps around the first access to a file.
const MAPPED_AT_ONCE: u32 = 64 << 10;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in WRAPPED {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap={name}");
    }
    let is_gnu = std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    if !is_gnu || !compiler_has("libgcc_eh.a") {
        return;
    }
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR"));
    std::fs::write(folder.join("libgcc_s.so"), "GROUP ( libgcc_eh.a libgcc.a )\n")
        .expect("OUT_DIR can be written to");
    println!("cargo::rustc-cdylib-link-arg=-L{}", folder.display());
    let script = folder.join("side-by-side.ld");
    std::fs::write(&script, SIDE_BY_SIDE).expect("OUT_DIR can be written to");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-T,{}", script.display());
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,max-page-size={MAPPED_AT_ONCE}");
}

/// Whether the C compiler, which links, knows where an archive is.
fn compiler_has(archive: &str) -> bool {
    // Cargo names the linker of another architecture.
    let compiler = std::env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let asked = Command::new(compiler).arg(format!("-print-file-name={archive}")).output();
    asked.is_ok_and(|told| Path::new(String::from_utf8_lossy(&told.stdout).trim()).is_absolute())
}
