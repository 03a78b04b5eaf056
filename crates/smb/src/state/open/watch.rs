//! The watch of an open directory, and the requests that wait for changes (MS-FSA §2.1.5.11).

use crate::state::pending::Waker;
use std::collections::VecDeque;
use std::sync::Arc;
use vfs::claims::Outcome;
use vfs::sync::Mutex;
use vfs::volume::change_notify::{Watch, WatchEvents, WatchFilter};
use vfs::{File, FsResult};

pub(crate) struct DirectoryWatch {
    watch: Watch,
    queue: Arc<Queue>,
}

/// Requests in order of arrival.
#[derive(Default)]
struct Queue(Mutex<VecDeque<Waker>>);

impl Queue {
    /// Wakes the first request.
    fn wake(&self) {
        let first = self.0.lock().pop_front();
        if let Some(waker) = first {
            waker.wake(Outcome::Again);
        }
    }
}

impl DirectoryWatch {
    pub(crate) fn start(dir: &File, wish: WatchFilter) -> FsResult<Self> {
        let queue = Arc::new(Queue::default());
        let waiting = Arc::clone(&queue);
        Ok(Self { watch: dir.watch(wish, Box::new(move || waiting.wake()))?, queue })
    }

    /// Takes the changes so far, if there are any.
    pub(crate) fn take(&self) -> Option<WatchEvents> {
        self.watch.take()
    }

    /// Queues a request until there are changes.
    pub(crate) fn wait(&self, waker: &Waker) {
        self.queue.0.lock().push_back(waker.clone());
        // A change before this point has found no request to wake.
        self.wake_for_news();
    }

    /// Removes a request. Its changes go to the next one.
    pub(crate) fn forget(&self, async_id: u64) {
        self.queue.0.lock().retain(|waker| waker.request().async_id != async_id);
        self.wake_for_news();
    }

    fn wake_for_news(&self) {
        if self.watch.has_events() {
            self.queue.wake();
        }
    }
}
