//! What the load asks of a service.

use std::io;

/// A service under load.
pub trait Service {
    /// Gives all of `keys` keys values of `bytes`, half of each noise.
    fn fill(&mut self, keys: u64, bytes: usize) -> io::Result<()>;

    /// Asks for a key.
    fn request(&mut self, key: u64) -> io::Result<()>;

    /// Reads the answer, and returns the length of the value.
    fn answer(&mut self) -> io::Result<usize>;
}
