//! What page faults, forks, pipes, and files cost: `cost NAME FOLDER` does one of them many times and
//! prints `NAME NANOSECONDS`, the CPU time of one, with that of its children. For the guests of
//! kernel/bench, where a nanosecond is an instruction. Compiled alone, without crates.

use std::ffi::{c_int, c_long, c_void};
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;

unsafe extern "C" {
    fn mmap(
        at: *mut c_void,
        length: usize,
        prot: c_int,
        flags: c_int,
        file: c_int,
        offset: c_long,
    ) -> *mut c_void;
    fn munmap(at: *mut c_void, length: usize) -> c_int;
    fn pipe(ends: *mut c_int) -> c_int;
    fn read(file: c_int, to: *mut c_void, length: usize) -> isize;
    fn write(file: c_int, from: *const c_void, length: usize) -> isize;
    fn close(file: c_int) -> c_int;
    fn fork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(code: c_int) -> !;
    fn clock_gettime(clock: c_int, time: *mut [c_long; 2]) -> c_int;
    fn getrusage(who: c_int, usage: *mut [c_long; 18]) -> c_int;
}

const PROCESS_CPU_TIME: c_int = 2;
const CHILDREN: c_int = -1;

/// CPU time of this process and of the children that it waited for, in nanoseconds.
fn cpu_time() -> i64 {
    let (mut time, mut usage) = ([0; 2], [0; 18]);
    // SAFETY: room for struct timespec, and for struct rusage, which begins with two struct timeval.
    unsafe {
        clock_gettime(PROCESS_CPU_TIME, &mut time);
        getrusage(CHILDREN, &mut usage);
    }
    let children = (usage[0] + usage[2]) * 1_000_000 + usage[1] + usage[3];
    time[0] * 1_000_000_000 + time[1] + children * 1000
}

/// Memory that is mapped, touched page by page, and given back; its pages.
fn touched(mib: usize) -> io::Result<usize> {
    let length = mib * MIB;
    // Readable and writable; private, anonymous, without reserve.
    // SAFETY: a new mapping, placed by the kernel.
    let at = unsafe { mmap(std::ptr::null_mut(), length, 3, 0x4022, -1, 0) };
    if at as isize == -1 {
        return Err(io::Error::last_os_error());
    }
    for offset in (0..length).step_by(PAGE) {
        // SAFETY: within the mapping.
        unsafe { at.cast::<u8>().add(offset).write_volatile(1) };
    }
    // SAFETY: the mapping from above, which nobody refers to any more.
    unsafe { munmap(at, length) };
    Ok(length / PAGE)
}

/// Page faults of 64 MiB at a time.
fn faults() -> io::Result<usize> {
    (0..8).map(|_| touched(64)).sum()
}

/// Processes that end at once.
fn forks() -> io::Result<usize> {
    const COUNT: usize = 1000;
    for _ in 0..COUNT {
        // SAFETY: there is one thread, and the child ends at once.
        let child = unsafe { fork() };
        if child == 0 {
            // SAFETY: ends the child.
            unsafe { _exit(0) };
        }
        let mut status = 0;
        // SAFETY: room for the status.
        if child < 0 || unsafe { waitpid(child, &mut status, 0) } != child {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(COUNT)
}

/// Pipes that are made, filled with 64 KiB, emptied, and closed.
fn pipes() -> io::Result<usize> {
    const COUNT: usize = 4000;
    let mut data = vec![7u8; 16 * PAGE];
    for _ in 0..COUNT {
        let mut ends = [0; 2];
        // SAFETY: room for two ends, and a buffer of the length that is named.
        let moved = unsafe {
            if pipe(ends.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let written = write(ends[1], data.as_ptr().cast(), data.len());
            let read = read(ends[0], data.as_mut_ptr().cast(), data.len());
            for end in ends {
                close(end);
            }
            written.min(read)
        };
        if moved != data.len() as isize {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(COUNT)
}

/// Files of 16 KiB that are written and, once there are a thousand of them, deleted.
fn files(folder: &Path) -> io::Result<usize> {
    const COUNT: usize = 1000;
    let data = [7u8; 4 * PAGE];
    let name = |number: usize| folder.join(format!("cost-{number}"));
    for _ in 0..4 {
        (0..COUNT).try_for_each(|number| fs::write(name(number), data))?;
        (0..COUNT).try_for_each(|number| fs::remove_file(name(number)))?;
    }
    Ok(4 * COUNT)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, folder] = &words[..] else {
        eprintln!("cost: {words:?}: expected NAME FOLDER");
        return ExitCode::from(2);
    };
    let before = cpu_time();
    let done = match name.as_str() {
        "faults" => faults(),
        "forks" => forks(),
        "pipes" => pipes(),
        "files" => files(Path::new(folder)),
        _ => {
            eprintln!("cost: {name}: expected faults, forks, pipes, or files");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(count) => {
            println!("{name} {}", (cpu_time() - before) / count as i64);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cost: {name}: {error}");
            ExitCode::FAILURE
        }
    }
}
