//! Large arrays on the host that are read at random.
//!
//! The state of a simulated machine takes megabytes to gigabytes, and most of its accesses miss the
//! host's caches. Huge pages keep the host's TLB from missing as well ([`Array`]), and prefetches let
//! many misses overlap ([`prefetch`]). Neither changes any result.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod array;

pub use array::{Array, Number};

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Has an element brought into the host's cache and does not wait for it. Where the host has no
/// such instruction nothing happens; an index beyond the end has no effect.
#[inline]
pub fn prefetch<T>(elements: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint: it reads nothing into the program and cannot fault, wherever
        // its address lies.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(elements.as_ptr().wrapping_add(at).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (elements, at);
}

/// Which little-endian words of up to four quadruples equal `wanted` in the bits of `mask`, a bit
/// each, the first lowest. All are compared side by side, for which of them it is cannot be
/// predicted.
#[inline(always)]
#[must_use]
pub fn equal<const N: usize>(fours: &[[u8; 16]; N], mask: u32, wanted: u32) -> u32 {
    const { assert!(N <= 4) };
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{
            _mm_and_si128, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_epi8,
            _mm_movemask_ps, _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32, _mm_setzero_si128,
        };
        // SAFETY: SSE2 is part of x86-64; each load is of sixteen live bytes, and needs no
        // alignment.
        unsafe {
            let (mask, wanted) = (_mm_set1_epi32(mask as i32), _mm_set1_epi32(wanted as i32));
            let same = |at: usize| match fours.get(at) {
                Some(four) => {
                    let words = _mm_and_si128(_mm_loadu_si128(four.as_ptr().cast()), mask);
                    _mm_cmpeq_epi32(words, wanted)
                }
                None => _mm_setzero_si128(),
            };
            if N == 1 {
                return _mm_movemask_ps(_mm_castsi128_ps(same(0))) as u32;
            }
            let low = _mm_packs_epi32(same(0), same(1));
            let high = _mm_packs_epi32(same(2), same(3));
            _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let words = fours.as_flattened().as_chunks::<4>().0.iter();
        let bits = words
            .enumerate()
            .map(|(at, word)| u32::from(u32::from_le_bytes(*word) & mask == wanted) << at);
        bits.fold(0, |all, bit| all | bit)
    }
}

/// Which of sixteen bytes equal `wanted`, a bit each, the first lowest.
#[inline(always)]
#[must_use]
pub fn equal_bytes(bytes: &[u8; 16], wanted: u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{
            _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8,
        };
        // SAFETY: as above.
        unsafe {
            let bytes = _mm_loadu_si128(bytes.as_ptr().cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(wanted as i8))) as u32
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let bits = bytes.iter().enumerate().map(|(at, byte)| u32::from(*byte == wanted) << at);
        bits.fold(0, |all, bit| all | bit)
    }
}

/// Adds 1 to each byte that is less than `limit`, then clears the bits that `mask` has not. The bytes
/// and the limit are below 128. A caller that cleared a byte on its own would delay the next load of
/// all sixteen, which has to wait for the store.
#[inline(always)]
#[must_use]
pub fn count_up_below(bytes: &[u8; 16], limit: u8, mask: &[u8; 16]) -> [u8; 16] {
    debug_assert!(limit < 128 && bytes.iter().all(|&byte| byte < 128));
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{
            _mm_and_si128, _mm_cmplt_epi8, _mm_loadu_si128, _mm_set1_epi8, _mm_storeu_si128,
            _mm_sub_epi8,
        };
        let mut after = [0; 16];
        // SAFETY: as above; the store is of sixteen bytes of `after`.
        unsafe {
            let bytes = _mm_loadu_si128(bytes.as_ptr().cast());
            // All bits of a byte that is less are set, which is -1.
            let less = _mm_cmplt_epi8(bytes, _mm_set1_epi8(limit as i8));
            let mask = _mm_loadu_si128(mask.as_ptr().cast());
            let counted = _mm_and_si128(_mm_sub_epi8(bytes, less), mask);
            _mm_storeu_si128(after.as_mut_ptr().cast(), counted);
        }
        after
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        core::array::from_fn(|at| (bytes[at] + u8::from(bytes[at] < limit)) & mask[at])
    }
}

#[cfg(test)]
mod tests {
    fn equal(words: [u32; 16], mask: u32, wanted: u32) -> u32 {
        let mut fours = [[0; 16]; 4];
        for (to, word) in fours.as_flattened_mut().as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        let all = super::equal(&fours, mask, wanted);
        assert_eq!(super::equal::<3>(fours.first_chunk().unwrap(), mask, wanted), all & 0xFFF);
        assert_eq!(super::equal::<2>(fours.first_chunk().unwrap(), mask, wanted), all & 0xFF);
        assert_eq!(super::equal::<1>(fours.first_chunk().unwrap(), mask, wanted), all & 0xF);
        all
    }

    #[test]
    fn words_that_are_equal_are_named_by_their_bits() {
        for at in 0..16 {
            for wanted in [0, 1, 0x7FFF_FFFF, 0x8000_0000, u32::MAX] {
                let mut words = [wanted ^ 0x8000; 16];
                assert_eq!(equal(words, u32::MAX, wanted), 0);
                assert_eq!(equal(words, 0x7FFF, wanted & 0x7FFF), 0xFFFF, "the bit does not count");
                words[at] = wanted;
                assert_eq!(equal(words, u32::MAX, wanted), 1 << at);
                words[15 - at] = wanted;
                assert_eq!(equal(words, u32::MAX, wanted), 1 << at | 1 << (15 - at));
                assert_eq!(equal([wanted; 16], u32::MAX, wanted), 0xFFFF);
            }
        }
    }

    #[test]
    fn bytes_that_are_equal_are_named_by_their_bits() {
        for wanted in [0, 1, 127, 128, 255] {
            let mut bytes = [wanted ^ 64; 16];
            assert_eq!(super::equal_bytes(&bytes, wanted), 0);
            bytes[0] = wanted;
            bytes[13] = wanted;
            assert_eq!(super::equal_bytes(&bytes, wanted), 1 << 13 | 1);
        }
    }

    #[test]
    fn bytes_below_a_limit_count_up() {
        let bytes: [u8; 16] = std::array::from_fn(|at| at as u8 * 8);
        for limit in 0..128 {
            let mut expected = bytes.map(|byte| byte + u8::from(byte < limit));
            let mut mask = [0xFF; 16];
            assert_eq!(super::count_up_below(&bytes, limit, &mask), expected);
            let at = usize::from(limit) % 16;
            (expected[at], mask[at]) = (0, 0);
            assert_eq!(super::count_up_below(&bytes, limit, &mask), expected);
        }
    }
}
