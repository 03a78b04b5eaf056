//! Keeps clients of NFSv4 alive while nobody calls for them: between a load's set-up and its beginning, and
//! where a schedule leaves long pauses.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::session::ClientState;
use crate::error::Error;

/// A client is renewed so many times in a lease.
const RENEWALS: u32 = 3;
/// The shortest time between two renewals.
const PERIOD_MIN: Duration = Duration::from_millis(100);

/// A thread that renews the leases of clients of one server, from the first of them on. When it is dropped they
/// end in order.
#[derive(Debug, Default)]
pub(crate) struct LeaseKeeper {
    /// `None` ends the thread.
    clients: Option<Sender<ClientState>>,
    thread: Option<JoinHandle<()>>,
}

impl LeaseKeeper {
    /// Keeps this client from now on.
    pub(crate) fn keep(&mut self, mut client: ClientState) -> Result<(), Error> {
        if self.clients.is_none() {
            let (clients, come) = channel();
            let period = (client.lease()? / RENEWALS).max(PERIOD_MIN);
            let thread = thread::Builder::new()
                .name("lease".to_owned())
                .spawn(move || renew(&come, period))
                .map_err(Error::io("start the thread that renews leases"))?;
            (self.clients, self.thread) = (Some(clients), Some(thread));
        }
        if let Some(clients) = &self.clients {
            // The thread ends after this alone.
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

fn renew(come: &Receiver<ClientState>, period: Duration) {
    let (mut kept, mut due) = (Vec::<ClientState>::new(), Instant::now() + period);
    loop {
        match come.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(client) => kept.push(client),
            Err(RecvTimeoutError::Disconnected) => return end(kept),
            Err(RecvTimeoutError::Timeout) => {
                // What goes wrong here meets the load's own calls, which tell of it. A server that is silent is
                // not waited for again for each client; one that knows a client no more may know the others.
                _ = kept.iter_mut().any(|client| client.renew().is_err() && !client.is_lost());
                due = Instant::now() + period;
            }
        }
    }
}

/// Ends the clients in order. Where that fails with one, the server is gone, and the others end with their leases:
/// waiting for each would take minutes.
fn end(clients: Vec<ClientState>) {
    let mut is_gone = false;
    for mut client in clients {
        is_gone = is_gone || client.end().is_err();
        if is_gone {
            client.abandon();
        }
    }
}
