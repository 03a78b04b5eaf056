//! Panics, which are bugs: their effect and their number.
//!
//! A panic ends the call or the connection that met it, not a thread that serves others. The process's panic hook
//! writes the message.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

static CAUGHT: AtomicU64 = AtomicU64::new(0);

/// The error of a panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panicked;

/// Runs code that may panic. The caller must not use data that a panic may have left half changed.
#[inline]
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        CAUGHT.fetch_add(1, Ordering::Relaxed);
        Panicked
    })
}

pub fn caught() -> u64 {
    CAUGHT.load(Ordering::Relaxed)
}

/// Does the work of a thread that every client depends on: a panic ends the process, so that its supervisor can restart
/// it.
pub fn or_abort<T>(work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| std::process::abort())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_panic_is_caught_and_counted() {
        let before = caught();
        assert_eq!(catch(|| 7), Ok(7));
        assert_eq!(catch(|| -> u32 { panic!("wanted by a test") }), Err(Panicked));
        assert!(caught() > before);
    }

    /// Set in the child that is to die.
    const DIES: &str = "PLIMSOLL_TEST_DIES";

    #[test]
    fn a_thread_that_others_need_takes_the_process_with_it() {
        if std::env::var_os(DIES).is_some() {
            let thread = std::thread::spawn(|| or_abort(|| panic!("wanted by a test")));
            let _ = thread.join();
            return;
        }
        let mut child = Command::new(std::env::current_exe().unwrap());
        let name = "panics::tests::a_thread_that_others_need_takes_the_process_with_it";
        let ended = child.args(["--exact", name]).env(DIES, "1").output().unwrap();
        assert!(!ended.status.success(), "{ended:?}");
    }
}
