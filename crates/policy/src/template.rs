//! The source of a library with a policy, as files.

use std::io;
use std::path::Path;

/// A file of the template: its path, and its contents, in which `NAME` is the policy's.
const FILES: [(&str, &str); 5] = [
    ("Cargo.toml", include_str!("../template/Cargo.toml.in")),
    ("README.md", include_str!("../template/README.md")),
    ("src/abi.rs", include_str!("abi.rs")),
    ("src/lib.rs", include_str!("../template/src/lib.rs")),
    ("src/prairie.rs", include_str!("../template/src/prairie.rs")),
];

/// Why a template could not be written.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The folder's name is no name of a crate.
    #[error(
        "{folder}: `{name}` cannot be a crate's name, expected letters, digits, `-` and `_` after \
         a letter"
    )]
    Name {
        /// The folder.
        folder: String,
        /// Its last part.
        name: String,
    },
    /// The folder cannot be made, or exists.
    #[error("cannot make the folder {folder}: {reason}")]
    Folder {
        /// The folder.
        folder: String,
        /// The reason.
        reason: String,
    },
    /// A file cannot be written.
    #[error("cannot write {file}: {reason}")]
    File {
        /// The file.
        file: String,
        /// The reason.
        reason: io::ErrorKind,
    },
}

/// Writes the template into a new folder, whose name becomes the crate's. Returns that name.
///
/// # Errors
/// If the folder exists, cannot be written, or its name cannot be a crate's.
pub fn write(folder: &Path) -> Result<String, TemplateError> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !begins || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
        return Err(TemplateError::Name { folder: folder.display().to_string(), name });
    }
    let made = std::fs::create_dir(folder).and_then(|()| std::fs::create_dir(folder.join("src")));
    made.map_err(|error| TemplateError::Folder {
        folder: folder.display().to_string(),
        reason: match error.kind() {
            io::ErrorKind::AlreadyExists => "it exists already, expected a new name".to_owned(),
            other => other.to_string(),
        },
    })?;
    for (path, contents) in FILES {
        let file = folder.join(path);
        let contents = match path {
            "Cargo.toml" => contents.replace("NAME", &name),
            "README.md" => contents.replace("NAME", &name.replace('-', "_")),
            _ => contents.to_owned(),
        };
        std::fs::write(&file, contents).map_err(|error| TemplateError::File {
            file: file.display().to_string(),
            reason: error.kind(),
        })?;
    }
    Ok(name)
}
