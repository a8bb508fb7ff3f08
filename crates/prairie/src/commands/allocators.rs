//! Allocators as arguments: one parser for every command.

use prairie_model::allocator::{ALLOCATORS, Allocator, World};

/// The value of `--systems`.
#[derive(Clone, Debug)]
pub struct Allocators(pub Vec<Allocator>);

/// Allocators that a replay can run; `none` for policies alone.
pub fn replayed(text: &str) -> Result<Allocators, String> {
    match text.trim() {
        "none" => Ok(Allocators(Vec::new())),
        text => parse(text, World::Replay),
    }
}

/// Allocators that a simulated server can run.
pub fn fleet(text: &str) -> Result<Allocators, String> {
    parse(text, World::Fleet)
}

/// Allocators that the simulated machine can run.
pub fn simulated(text: &str) -> Result<Allocators, String> {
    parse(text, World::Machine)
}

fn parse(text: &str, world: World) -> Result<Allocators, String> {
    let list = Allocator::parse_list(text, world).map_err(|error| error.to_string())?;
    Ok(Allocators(list))
}

/// The lines of `--help` that list the allocators of a world with their options.
pub fn help(world: World) -> String {
    let mut text = String::from("Allocators:\n");
    for entry in ALLOCATORS.iter().filter(|entry| entry.worlds.has(world)) {
        text += &format!("  {:<16} {}\n", entry.name, entry.description);
        let options = entry.switches().filter(|switch| switch.worlds.has(world));
        let options: Vec<String> = options.map(|switch| format!("+{}", switch.usage())).collect();
        for line in options.chunks(4) {
            text += &format!("  {:<16}   {}\n", "", line.join(" "));
        }
    }
    text + "  all              every allocator in this list"
}
