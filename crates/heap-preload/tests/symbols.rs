//! The library imports no cancellation point.

mod common;

use std::process::Command;

use common::{library, messages};

/// Cancellation points: those that POSIX.1-2024 requires (section 2.9.5.2) and those that glibc
/// adds, under all of their names.
const CANCELLATION_POINTS: &str = "
    accept accept4 aio_suspend clock_nanosleep close connect creat creat64 dup3 epoll_pwait
    epoll_wait fcntl fcntl64 fdatasync fsync getrandom getmsg getpmsg lockf lockf64 mq_receive
    mq_send mq_timedreceive mq_timedsend msgrcv msgsnd msync nanosleep open open64 openat openat64
    pause poll ppoll pread pread64 pselect pthread_cond_clockwait pthread_cond_timedwait
    pthread_cond_wait pthread_join pthread_testcancel putmsg putpmsg pwrite pwrite64 read readv recv
    recvfrom recvmsg select sem_clockwait sem_timedwait sem_wait send sendmsg sendto sigpause
    sigsuspend sigtimedwait sigwait sigwaitinfo sleep splice sync_file_range system tcdrain tee
    usleep vmsplice wait wait3 wait4 waitid waitpid write writev";

/// Symbols that the library may import. Its system calls are its own; those named here (`mmap64` to
/// `syscall`) come from the backtrace of Rust's panic handler.
const ALLOWED: &str = "
    _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable __cxa_finalize __gmon_start__
    _ZSt15get_new_handlerv _ZSt17__throw_bad_allocv
    __cxa_thread_atexit_impl __pthread_key_create __register_atfork pthread_atfork
    __rseq_offset __rseq_size __tls_get_addr _dl_find_object dl_iterate_phdr dlopen dlsym
    __errno_location __xpg_strerror_r abort clock_gettime environ getauxval getenv sysconf
    bcmp memchr memcmp memcpy memmove memset strlen
    pthread_create pthread_detach pthread_getspecific pthread_key_create pthread_key_delete
    pthread_mutex_lock pthread_mutex_unlock pthread_once pthread_setspecific pthread_sigmask
    sigaction sigfillset
    mmap64 munmap fstat64 getcwd gettid lseek64 readlink realpath stat64 statx syscall";

#[test]
fn the_library_calls_no_cancellation_point() {
    let output = Command::new("nm").args(["-D", "--undefined-only"]).arg(library()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", messages(&output));
    let listed = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().last()?.split('@').next())
        .collect();
    assert!(names.contains(&"memcpy"), "{listed}");
    for name in &names {
        assert!(
            CANCELLATION_POINTS.split_whitespace().all(|point| point != *name),
            "{name} is a cancellation point"
        );
        assert!(
            ALLOWED.split_whitespace().any(|allowed| allowed == *name),
            "{name} is new: allow it here if it is no cancellation point"
        );
    }
}

#[test]
fn what_is_allowed_contains_no_cancellation_point() {
    for allowed in ALLOWED.split_whitespace() {
        assert!(CANCELLATION_POINTS.split_whitespace().all(|point| point != allowed), "{allowed}");
    }
}
