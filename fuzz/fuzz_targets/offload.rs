//! What the offload daemon reads from others: any text gives values or an error.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;

use prairie_fuzz::fuzz_target;
use prairie_offload::config::Config;
use prairie_offload::kubernetes::{labels_of_volume, pod_of, pods_of_file};
use prairie_offload::objective::{value_of_file, value_of_response};

fuzz_target!(|text: &str| {
    let _ = Config::parse(Path::new("offload.toml"), text);
    let _ = (value_of_file(text), value_of_response(text));
    let _ = (pods_of_file(text), labels_of_volume(text));
    if let Some(pod) = pod_of(text) {
        assert!(!pod.uid.is_empty());
    }
});
