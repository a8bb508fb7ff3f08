//! The flags of a frame, as `/proc/kpageflags` gives them.

use serde::{Deserialize, Serialize};

/// One frame's word from `/proc/kpageflags`: the bits `KPF_*` of
/// `include/uapi/linux/kernel-page-flags.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageFlags(pub u64);
