//! What a user has to change where the kernel refuses.

/// What lets this user read what the kernel shows to root alone.
pub fn for_refused() -> &'static str {
    by_user(
        "run as root (sudo), outside a container",
        "run outside a container, with CAP_SYS_ADMIN",
    )
}

/// The remedy for other users, or that for root, whom `run as root` does not help.
pub fn by_user(others: &'static str, root: &'static str) -> &'static str {
    if rustix::process::geteuid().is_root() { root } else { others }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_not_asked_to_be_root() {
        let is_root = rustix::process::geteuid().is_root();
        assert_ne!(for_refused().contains("as root"), is_root, "{}", for_refused());
    }
}
