//! The command that runs while a machine is recorded.

use std::ffi::OsString;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Error, Result};

/// How long an interrupted command has to end.
const GRACE: Duration = Duration::from_secs(2);

/// A running command. It shares our terminal, so Ctrl-C reaches it as it reaches us.
pub struct Command {
    child: Child,
    status: Option<ExitStatus>,
}

impl Command {
    /// Starts the command.
    ///
    /// # Errors
    /// [`Error::Record`] if there is no such program, or it may not be run.
    pub fn start(words: &[OsString]) -> Result<Command> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(Error::Record {
                what: "the command to record".into(),
                why: "it is empty".into(),
                remedy: "name a program after --".into(),
            });
        };
        let child = std::process::Command::new(program).args(arguments).spawn();
        let child = child.map_err(|error| Error::Record {
            what: format!("cannot run {}", program.to_string_lossy()),
            why: error.to_string(),
            remedy: "nothing was recorded".into(),
        })?;
        Ok(Command { child, status: None })
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    /// How it ended. If it still runs, because the recording was interrupted, it is asked to end
    /// (SIGTERM); `None` if it does not within two seconds, and it is then left alone.
    pub fn finish(mut self) -> Option<ExitStatus> {
        if !self.has_ended() {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
        let deadline = Instant::now() + GRACE;
        while !self.has_ended() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        self.status
    }
}
