//! The pictures of the protocol in `docs/src/images` are what the protocol draws today.

use std::path::Path;

#[path = "../src/bin/contiguitas_pictures/pictures.rs"]
mod pictures;

#[test]
fn committed_pictures_are_what_the_protocol_draws() {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/images");
    for (name, svg) in pictures::all() {
        let committed = std::fs::read_to_string(images.join(name)).unwrap_or_default();
        assert!(
            committed == svg,
            "docs/src/images/{name} is not what the protocol draws: \
             cargo run -p experiments --bin contiguitas_pictures"
        );
    }
}
