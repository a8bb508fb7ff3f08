//! Positional arguments.

use std::error::Error;

/// Positional numbers with their defaults.
pub struct Numbers(pub std::vec::IntoIter<String>);

impl Numbers {
    /// The next one, or `default` after the last.
    pub fn next(&mut self, default: f64) -> Result<f64, Box<dyn Error>> {
        match self.0.next() {
            Some(text) => text.parse().map_err(|_| format!("`{text}`: expected a number").into()),
            None => Ok(default),
        }
    }
}
