//! Set-up work on several connections, which a stop ends early.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use crate::error::Error;

const THREADS: usize = 4;
const WATCH_EVERY: Duration = Duration::from_millis(20);

/// # Errors
/// [`Error::Stopped`] once `stop` is set.
pub(crate) fn go_on(stop: &AtomicBool) -> Result<(), Error> {
    if stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
}

/// Calls `work` with shares of `all`, in several threads, and `watch` at intervals. An error of either sets `stop`, which
/// `work` checks with [`go_on`] between its calls.
///
/// # Errors
/// The error of `watch`, or the first of a thread.
pub(super) fn in_shares<T: Sync, R: Send>(
    all: &[T],
    stop: &AtomicBool,
    work: impl Fn(&[T]) -> Result<Vec<R>, Error> + Sync,
    watch: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<Vec<R>, Error> {
    let work = &|share: &[T]| {
        let done = work(share);
        stop.fetch_or(done.is_err(), Ordering::Relaxed);
        done
    };
    thread::scope(|scope| {
        let shares = all.chunks(all.len().div_ceil(THREADS).max(1));
        let running: Vec<_> = shares.map(|share| scope.spawn(move || work(share))).collect();
        let mut watched = Ok(());
        loop {
            let is_done = running.iter().all(ScopedJoinHandle::is_finished);
            watched = watched.and_then(|()| watch());
            stop.fetch_or(watched.is_err(), Ordering::Relaxed);
            if is_done {
                break;
            }
            thread::sleep(WATCH_EVERY);
        }
        let join = |thread: ScopedJoinHandle<'_, Result<Vec<R>, Error>>| {
            thread.join().map_err(|_| Error::Plan("a thread that prepares files panicked".to_owned()))?
        };
        let mut parts: Vec<_> = running.into_iter().map(join).collect();
        watched?;
        // The other threads were only stopped.
        let is_reason =
            |part: &Result<_, Error>| matches!(part, Err(wrong) if !matches!(wrong, Error::Stopped));
        if let Some(at) = parts.iter().position(is_reason) {
            parts.swap(0, at);
        }
        Ok(parts.into_iter().collect::<Result<Vec<_>, Error>>()?.into_iter().flatten().collect())
    })
}
