//! Kills a program at the moment at which a memory block is offline.
//!
//! ```text
//! kill_offline daemon COUNT COMMAND...    kills COMMAND after it has taken COUNT blocks offline
//! kill_offline all COUNT COMMAND...       its children first, so that no guardian acts
//! ```
//!
//! Prints `block N STATE` with what the kernel says of the block at that moment. A daemon brings a
//! block online milliseconds after it went offline, and a signal that comes while the kernel does
//! either has no effect before it is done. COMMAND is therefore traced: each of its threads stops at
//! each system call, and is killed where a write of `offline` has returned, before the next call.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

use libc::{c_int, c_long, pid_t};

/// `PTRACE_GET_SYSCALL_INFO`, which musl's headers do not have.
const GET_SYSCALL_INFO: c_long = 0x420e;
const AT_ENTRY: u8 = 1;
const AT_EXIT: u8 = 2;

/// What the kernel adds to SIGTRAP where a thread stops at a system call.
const SYSCALL_STOP: c_int = libc::SIGTRAP | 0x80;

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let done = match (words.first().map(String::as_str), words.get(1).map(|word| word.parse())) {
        (Some("daemon"), Some(Ok(count))) => run(&words[2..], count, false),
        (Some("all"), Some(Ok(count))) => run(&words[2..], count, true),
        _ => Err(io::Error::other("expected daemon or all, a count, and a command")),
    };
    if let Err(error) = done {
        eprintln!("kill_offline: {error}");
        std::process::exit(1);
    }
}

fn run(command: &[String], count: u32, children: bool) -> io::Result<()> {
    let (program, arguments) =
        command.split_first().ok_or_else(|| io::Error::other("expected a command"))?;
    let mut command = Command::new(program);
    // SAFETY: ptrace is a bare system call, and this one has no arguments.
    unsafe { command.args(arguments).pre_exec(|| ptrace(libc::PTRACE_TRACEME as c_long, 0, 0, 0)) };
    let leader = command.spawn()?.id() as pid_t;
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
    // It stops where the program begins.
    wait(leader)?;
    ptrace(libc::PTRACE_SETOPTIONS as c_long, leader, 0, options as usize)?;
    proceed(leader, 0)?;
    let mut left = count;
    // Files into which a thread is writing `offline`.
    let mut writing: BTreeMap<pid_t, String> = BTreeMap::new();
    loop {
        let (thread, status) = wait(-1)?;
        if !libc::WIFSTOPPED(status) {
            if thread == leader {
                return Err(io::Error::other(format!(
                    "the command ended before it took {left} more blocks offline"
                )));
            }
            continue;
        }
        let mut signal = libc::WSTOPSIG(status);
        if signal == SYSCALL_STOP {
            signal = 0;
            match at_call(thread)? {
                Call::Begins(file) => drop(writing.insert(thread, file)),
                Call::Ends { written } => match writing.remove(&thread) {
                    Some(file) if written => {
                        left -= 1;
                        if left == 0 {
                            return end(leader, children, &file);
                        }
                    }
                    _ => {}
                },
                Call::Other => {}
            }
        } else if signal == libc::SIGTRAP || signal == libc::SIGSTOP {
            // An event of the tracing, or a new thread.
            signal = 0;
        }
        proceed(thread, signal)?;
    }
}

/// Kills the program, and its children before it, and waits for its end.
fn end(leader: pid_t, children: bool, file: &str) -> io::Result<()> {
    let state = fs::read_to_string(file)?;
    let mut doomed = Vec::new();
    if children {
        for task in fs::read_dir(format!("/proc/{leader}/task"))? {
            let text = fs::read_to_string(task?.path().join("children"))?;
            doomed.extend(text.split_whitespace().filter_map(|pid| pid.parse::<pid_t>().ok()));
        }
    }
    for pid in doomed.into_iter().chain([leader]) {
        // SAFETY: only sends a signal.
        check(c_long::from(unsafe { libc::kill(pid, libc::SIGKILL) }))?;
    }
    while !matches!(wait(-1)?, (pid, status) if pid == leader && !libc::WIFSTOPPED(status)) {}
    let block = file.trim_end_matches("/state").rsplit("memory").next().unwrap_or_default();
    println!("block {block} {}", state.trim());
    Ok(())
}

enum Call {
    /// `offline` is about to be written into this file.
    Begins(String),
    /// A call has returned: whether it wrote that word.
    Ends {
        written: bool,
    },
    Other,
}

const WORD: &[u8] = b"offline";

/// At which system call a thread has stopped.
fn at_call(thread: pid_t) -> io::Result<Call> {
    // `struct ptrace_syscall_info`: the kind of stop, two pointers, then the call's number and
    // arguments, or its result.
    let mut info = [0u64; 11];
    ptrace(GET_SYSCALL_INFO, thread, size_of_val(&info), info.as_mut_ptr() as usize)?;
    let [kind, _, _, number, file, text, length, ..] = info;
    let is_write = [libc::SYS_write, libc::SYS_pwrite64].contains(&(number as c_long));
    match kind.to_ne_bytes()[0] {
        AT_EXIT => Ok(Call::Ends { written: number == WORD.len() as u64 }),
        AT_ENTRY if is_write && length == WORD.len() as u64 => {
            let mut bytes = [0; WORD.len()];
            fs::File::open(format!("/proc/{thread}/mem"))?.read_exact_at(&mut bytes, text)?;
            let path = fs::read_link(format!("/proc/{thread}/fd/{file}"))?;
            match bytes == WORD {
                true => Ok(Call::Begins(path.display().to_string())),
                false => Ok(Call::Other),
            }
        }
        _ => Ok(Call::Other),
    }
}

/// Lets a thread run to its next system call.
fn proceed(thread: pid_t, signal: c_int) -> io::Result<()> {
    match ptrace(libc::PTRACE_SYSCALL as c_long, thread, 0, signal as usize) {
        // It has ended meanwhile, which `wait` reports.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        done => done,
    }
}

/// The next thread that stopped or ended, and its status.
fn wait(thread: pid_t) -> io::Result<(pid_t, c_int)> {
    let mut status = 0;
    // SAFETY: writes the status, nothing else.
    let found = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) };
    check(c_long::from(found))?;
    Ok((found, status))
}

fn ptrace(request: c_long, thread: pid_t, address: usize, data: usize) -> io::Result<()> {
    let thread = c_long::from(thread);
    let (address, data) = (ptr::without_provenance::<u8>(address), data);
    // SAFETY: the requests of this program write to nothing but the array of `at_call`, whose size
    // they are given.
    check(unsafe { libc::syscall(libc::SYS_ptrace, request, thread, address, data) })
}

fn check(answer: c_long) -> io::Result<()> {
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
