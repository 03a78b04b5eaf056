//! The listeners of a server, which may change while it runs.

use crate::congestion;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, MutexGuard};
use vfs::sync::Mutex;

/// The listeners of a server, each with its context. Clones belong to the same server.
pub struct Listeners<L>(Arc<Mutex<ListenerSet<L>>>);

struct ListenerSet<L> {
    open: Vec<Arc<Listener<L>>>,
    /// Whether the server has ended, or is about to.
    is_closed: bool,
}

pub(crate) struct Listener<L> {
    /// The socket, in non-blocking mode.
    pub(crate) socket: TcpListener,
    pub(crate) context: L,
}

impl<L> Clone for Listeners<L> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<L> Listeners<L> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(ListenerSet { open: Vec::new(), is_closed: false })))
    }

    /// Adds a listener. Clients that connect before the acceptor's next poll wait for it.
    pub fn add(&self, socket: TcpListener, serves: L) -> io::Result<()> {
        congestion::avoid_pacing_on_loopback(&socket);
        socket.set_nonblocking(true)?;
        let mut table = self.lock();
        if table.is_closed {
            return Err(io::Error::other("the server has ended"));
        }
        table.open.push(Arc::new(Listener { socket, context: serves }));
        Ok(())
    }

    /// Stops accepting at this address and releases it immediately. Existing connections stay.
    pub fn remove(&self, address: SocketAddr) {
        let is_there = |listener: &Listener<L>| listener.socket.local_addr().is_ok_and(|at| at == address);
        self.lock().open.retain(|listener| {
            let goes = is_there(listener);
            if goes {
                listener.shut_down();
            }
            !goes
        });
    }

    pub(crate) fn open(&self) -> Vec<Arc<Listener<L>>> {
        self.lock().open.clone()
    }

    /// Ends all listeners, for good.
    pub(crate) fn close(&self) {
        let mut table = self.lock();
        table.is_closed = true;
        table.open.drain(..).for_each(|listener| listener.shut_down());
    }

    fn lock(&self) -> MutexGuard<'_, ListenerSet<L>> {
        self.0.lock()
    }
}

impl<L> Listener<L> {
    /// Stops listening, although the acceptor may keep the socket open a little longer.
    fn shut_down(&self) {
        _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn a_removed_address_is_free_immediately() {
        let listeners = Listeners::new();
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        listeners.add(socket, ()).unwrap();
        let retained = listeners.open();
        TcpStream::connect(address).unwrap();
        listeners.remove(address);
        assert!(TcpStream::connect(address).is_err(), "the listener is closed");
        let again = TcpListener::bind(address).unwrap();
        drop(retained);
        listeners.close();
        assert!(listeners.add(again, ()).is_err());
    }
}
