//! The guardian's process, as the daemon has it: started, told every line, replaced if it is gone.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::State;

/// The guardian's process, and how it was started.
#[derive(Debug)]
pub(super) struct Guardian {
    program: PathBuf,
    arguments: Vec<String>,
    process: Child,
}

impl Guardian {
    /// Starts `program arguments…` with a pipe as its standard input, and hands it the state.
    pub(super) fn start(
        program: &Path,
        arguments: &[String],
        state: &State,
    ) -> io::Result<Guardian> {
        use std::os::unix::process::CommandExt;
        let process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // A group of its own: Ctrl-C at a terminal is for the daemon.
            .process_group(0)
            .spawn()?;
        let (program, arguments) = (program.to_owned(), arguments.to_owned());
        let mut guardian = Guardian { program, arguments, process };
        guardian.tell(&state.lines())?;
        Ok(guardian)
    }

    /// Starts another one in the place of one that is gone, or does not listen.
    pub(super) fn replace(&mut self, state: &State) -> io::Result<()> {
        // It does not have the lock, so that it changes nothing when it is killed.
        self.kill();
        *self = Guardian::start(&self.program, &self.arguments, state)?;
        Ok(())
    }

    pub(super) fn tell(&mut self, text: &str) -> io::Result<()> {
        // The pipe is closed once the process was waited for.
        let pipe = self.process.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        pipe.write_all(text.as_bytes())
    }

    pub(super) fn is_gone(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    pub(super) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Waits until it has read to the end, and ends.
    pub(super) fn end(mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
