//! Renews the leases of NFSv4 clients that make no calls for a while.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::session::ClientState;
use crate::error::Error;

/// Renewals of each client in a lease time.
const RENEWALS: u32 = 3;
const PERIOD_MIN: Duration = Duration::from_millis(100);

/// A thread that renews the leases of one server's clients. `Drop` ends the clients in order.
#[derive(Debug, Default)]
pub struct LeaseKeeper {
    /// `None` ends the thread.
    clients: Option<Sender<ClientState>>,
    thread: Option<JoinHandle<()>>,
}

impl LeaseKeeper {
    pub fn add(&mut self, mut client: ClientState) -> Result<(), Error> {
        if self.clients.is_none() {
            let (sender, added) = channel();
            let period = (client.lease_time()? / RENEWALS).max(PERIOD_MIN);
            let thread = thread::Builder::new()
                .name("lease".to_owned())
                .spawn(move || renew(&added, period))
                .map_err(Error::io("start the thread that renews leases"))?;
            (self.clients, self.thread) = (Some(sender), Some(thread));
        }
        if let Some(clients) = &self.clients {
            // The receiver lives until this sender is dropped.
            _ = clients.send(client);
        }
        Ok(())
    }
}

impl Drop for LeaseKeeper {
    fn drop(&mut self) {
        self.clients = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn renew(added: &Receiver<ClientState>, period: Duration) {
    let (mut clients, mut due) = (Vec::<ClientState>::new(), Instant::now() + period);
    loop {
        match added.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(client) => clients.push(client),
            Err(RecvTimeoutError::Disconnected) => return end(clients),
            Err(RecvTimeoutError::Timeout) => {
                // Errors are not reported here: the load's own calls meet them too. The loop stops at a silent server,
                // which would take a timeout for each client, but goes on after a client that the server has discarded.
                _ = clients.iter_mut().any(|client| client.renew().is_err() && !client.is_lost());
                due = Instant::now() + period;
            }
        }
    }
}

/// Ends the clients in order. After the first error the other clients expire with their leases: a timeout for
/// each would take minutes.
fn end(clients: Vec<ClientState>) {
    let mut has_failed = false;
    for mut client in clients {
        has_failed = has_failed || client.end().is_err();
        if has_failed {
            client.abandon();
        }
    }
}
