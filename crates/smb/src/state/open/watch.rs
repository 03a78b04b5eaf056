//! What an open watches, and which requests wait for news of it (MS-FSA §2.1.5.11).

use crate::state::pending::Waker;
use std::collections::VecDeque;
use std::sync::Arc;
use vfs::claims::Outcome;
use vfs::sync::Mutex;
use vfs::volume::change_notify::{Watch, WatchEvents, WatchFilter};
use vfs::{File, FsResult};

/// A watch of a directory, and who waits.
pub(crate) struct Watching {
    watch: Watch,
    queue: Arc<Queue>,
}

/// Requests, in the order in which they came.
#[derive(Default)]
struct Queue(Mutex<VecDeque<Waker>>);

impl Queue {
    /// Has the first that waits look for news.
    fn wake(&self) {
        let first = self.0.lock().pop_front();
        if let Some(waker) = first {
            waker.wake(Outcome::Again);
        }
    }
}

impl Watching {
    pub(crate) fn start(dir: &File, wish: WatchFilter) -> FsResult<Self> {
        let queue = Arc::new(Queue::default());
        let told = Arc::clone(&queue);
        Ok(Self { watch: dir.watch(wish, Box::new(move || told.wake()))?, queue })
    }

    /// Takes the news, if there is any.
    pub(crate) fn take(&self) -> Option<WatchEvents> {
        self.watch.take()
    }

    /// Has a request wait for news.
    pub(crate) fn wait(&self, waker: &Waker) {
        self.queue.0.lock().push_back(waker.clone());
        // What came in between has found nobody who waits.
        self.wake_for_news();
    }

    /// A request waits no longer: news that it was to look for is for the next one.
    pub(crate) fn forget(&self, async_id: u64) {
        self.queue.0.lock().retain(|waker| waker.asked().async_id != async_id);
        self.wake_for_news();
    }

    fn wake_for_news(&self) {
        if self.watch.has_events() {
            self.queue.wake();
        }
    }
}
