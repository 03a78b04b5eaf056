//! Connections that are gone, and what ends with them.
//!
//! Whoever is the last to have a connection may hold the lock of a file, whose change the client is told of. Sessions end on a thread of
//! their own, because what they have open is closed under such locks.

use crate::channel::Channel;
use crate::counts::{Counted, lock};
use crate::service::Service;
use std::io;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use vfs::panics;

/// Where connections part with their sessions.
#[derive(Default)]
pub(crate) struct Endings(Mutex<Option<Worker>>);

struct Worker {
    gone: Sender<Gone>,
    thread: JoinHandle<()>,
}

/// A connection that is gone, with what it had of sessions.
pub(crate) struct Gone {
    pub(crate) service: Arc<Service>,
    /// The connection's.
    pub(crate) number: u64,
    pub(crate) channels: Vec<Arc<Channel>>,
    /// It counts until all that is done.
    pub(crate) counted: Option<Counted>,
}

impl Endings {
    /// From now on, a thread sees to them.
    pub(crate) fn start(&self) -> io::Result<()> {
        let (gone, all) = mpsc::channel::<Gone>();
        // One that panics has said so.
        let work = move || all.iter().for_each(|gone| _ = panics::catch(|| gone.part()));
        let thread = thread::Builder::new().name("smb-endings".to_owned()).spawn(work)?;
        *lock(&self.0) = Some(Worker { gone, thread });
        Ok(())
    }

    /// Waits for all that are gone, which is seen to by whoever notices from now on.
    pub(crate) fn stop(&self) {
        let worker = lock(&self.0).take();
        if let Some(Worker { gone, thread }) = worker {
            drop(gone);
            // It catches panics.
            _ = thread.join();
        }
    }

    pub(crate) fn add(&self, gone: Gone) {
        let worker = lock(&self.0);
        let left = match &*worker {
            Some(worker) => worker.gone.send(gone).map_err(|unsent| unsent.0),
            None => Err(gone),
        };
        drop(worker);
        _ = left.map_err(Gone::part);
    }
}

impl Gone {
    fn part(self) {
        let Self { service, number, channels, counted } = self;
        channels.iter().for_each(|channel| service.part(channel, number));
        drop(counted);
    }
}
