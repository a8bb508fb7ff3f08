#!/bin/sh
# Lists the peers as NAME=LIBRARY[,VARIABLE=VALUE], after building those of crates.io in a folder.
# Usage: [PEERS="glibc jemalloc …"] bench/heap/peers.sh [FOLDER]
#
# Debian's packages are used where they are installed: libjemalloc2, libmimalloc2.0,
# libtcmalloc-minimal4. With a folder, jemalloc 5.3.1, mimalloc 3, snmalloc and Google's TCMalloc are
# built there as libraries to preload (needs cargo, a C++ compiler, cmake; minutes at the first time).
# What is missing is reported on standard error and left out.
#
# The variables are settings that a peer needs to do its best:
# - TCMalloc has caches of CPUs (tcmalloc-cpu) only where glibc leaves restartable sequences to it.
# - With THP `madvise`, NAME-thp is the peer told to request huge pages. gperftools, snmalloc and
#   TCMalloc have no such setting.
set -eu
libraries=/usr/lib/$(uname -m)-linux-gnu
mode=$(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || true)
wanted() { case " ${PEERS:-$1} " in *" $1 "*) true ;; *) false ;; esac; }
# Usage: peer NAME LIBRARY [VARIABLE=VALUE], the variable for NAME-thp
peer() {
    ! wanted "$1" || echo "$1=$2"
    [ $# -eq 2 ] || [ "${THP:-$mode}" != madvise ] || ! wanted "$1-thp" || echo "$1-thp=$2,$3"
}
installed() {
    if [ -e "$libraries/$2" ]; then peer "$1" "$libraries/$2" ${3:-}; else
        ! wanted "$1" || echo "no $1: $libraries/$2 is missing" >&2
    fi
}
peer glibc '' GLIBC_TUNABLES=glibc.malloc.hugetlb=1
installed jemalloc libjemalloc.so.2 MALLOC_CONF=thp:always
installed mimalloc libmimalloc.so.2.0 MIMALLOC_LARGE_OS_PAGES=1
installed gperftools libtcmalloc_minimal.so.4
[ $# -gt 0 ] || exit 0

mkdir -p "$1"
folder=$(cd "$1" && pwd)

# A static library of a crate, made into one to preload: each of malloc's family is its FUNCTIONs'
# prefix and the name. VARIABLE is the setting for huge pages, or empty.
# Usage: of_crate NAME VARIABLE DEPENDENCY ARCHIVE FUNCTION=OWN…
of_crate() {
    name=$1 variable=$2 dependency=$3 archive=$4
    shift 4
    wanted "$name" || wanted "$name-thp" || wanted "$name-cpu" || return 0
    library="$folder/lib$name-preload.so"
    if [ ! -e "$library" ]; then
        mkdir -p "$folder/$name/src"
        printf '[package]\nname = "peer-%s"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\n%s\n' \
            "$name" "$dependency" >"$folder/$name/Cargo.toml"
        : >"$folder/$name/src/lib.rs"
        if ! CARGO_TARGET_DIR="$folder/$name/target" cargo build --release --quiet \
            --manifest-path "$folder/$name/Cargo.toml" >&2; then
            echo "no $name: its crate does not build" >&2
            return 0
        fi
        static=$(find "$folder/$name/target/release/build" -name "$archive" | head -n 1)
        defined=
        for function in "$@"; do
            ! nm "$static" 2>/dev/null | grep -q " [TW] ${function#*=}\$" ||
                defined="$defined -Wl,--defsym=${function%%=*}=${function#*=}"
        done
        # shellcheck disable=SC2086
        if ! c++ -shared -o "$library" -Wl,--whole-archive "$static" -Wl,--no-whole-archive \
            $defined -lpthread -latomic >&2; then
            echo "no $name: $archive does not link" >&2
            return 0
        fi
        # Else the C library's would be measured under this name.
        if ! nm -D "$library" | grep -q ' [TWA] malloc$'; then
            echo "no $name: what was made of $archive exports no malloc" >&2
            rm "$library"
            return 0
        fi
    fi
    peer "$name" "$library" $variable
}
family() {
    for function in malloc free calloc realloc posix_memalign aligned_alloc memalign \
        malloc_usable_size; do
        case $function in
        malloc_usable_size) echo "$function=$1${2:-malloc_usable_size}" ;;
        *) echo "$function=$1$function" ;;
        esac
    done
}
of_crate jemalloc531 MALLOC_CONF=thp:always \
    'tikv-jemalloc-sys = { version = "0.7", features = ["unprefixed_malloc_on_supported_platforms"] }' \
    libjemalloc_pic.a
# shellcheck disable=SC2046
of_crate mimalloc3 MIMALLOC_ALLOW_LARGE_OS_PAGES=1 'libmimalloc-sys = "0.1.49"' libmimalloc.a \
    $(family mi_ usable_size)
# shellcheck disable=SC2046
of_crate snmalloc '' 'snmalloc-sys = { version = "0.7", default-features = false, features = ["build_cc", "libc-api"] }' 'libsnmalloc*.a' $(family sn_)
# Operators, too: a program linked with another malloc would get its operators and TCMalloc's free.
operators() {
    for pair in _Znwm=New _Znam=NewArray _ZnwmRKSt9nothrow_t=NewNothrow \
        _ZnamRKSt9nothrow_t=NewArrayNothrow _ZnwmSt11align_val_t=NewAligned \
        _ZnamSt11align_val_t=NewArrayAligned _ZnwmSt11align_val_tRKSt9nothrow_t=NewAlignedNothrow \
        _ZnamSt11align_val_tRKSt9nothrow_t=NewArrayAlignedNothrow _ZdlPv=Delete _ZdaPv=DeleteArray \
        _ZdlPvm=DeleteSized _ZdaPvm=DeleteArraySized _ZdlPvRKSt9nothrow_t=DeleteNothrow \
        _ZdaPvRKSt9nothrow_t=DeleteArrayNothrow _ZdlPvSt11align_val_t=DeleteAligned \
        _ZdaPvSt11align_val_t=DeleteArrayAligned _ZdlPvmSt11align_val_t=DeleteSizedAligned \
        _ZdaPvmSt11align_val_t=DeleteArraySizedAligned; do
        echo "${pair%=*}=$1${pair#*=}"
    done
}
# shellcheck disable=SC2046
of_crate tcmalloc '' 'tcmalloc-better = "0.1"' libtcmalloc.a \
    $(operators TCMallocInternal) \
    $(family TCMallocInternal | sed 's/Internalmalloc_usable_size/InternalMallocSize/;
        s/Internalmalloc$/InternalMalloc/; s/Internalfree/InternalFree/; s/Internalcalloc/InternalCalloc/;
        s/Internalrealloc/InternalRealloc/; s/Internalposix_memalign/InternalPosixMemalign/;
        s/Internalaligned_alloc/InternalAlignedAlloc/; s/Internalmemalign/InternalMemalign/')
library="$folder/libtcmalloc-preload.so"
! wanted tcmalloc-cpu || [ ! -e "$library" ] ||
    echo "tcmalloc-cpu=$library,GLIBC_TUNABLES=glibc.pthread.rseq=0"
