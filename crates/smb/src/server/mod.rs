//! SMB as a protocol of the transport, and the server.

mod admission;
mod batch_signing;
mod checks;
mod command_table;
mod compound;
mod headers;
mod inbound_message;
mod price;
mod protocol;
mod replies;
mod run;
mod suspended;
mod view;

use crate::limits::{PARKED_BYTES_MAX, PARKED_CALLS_MAX};
use crate::request::path_lookup::PathCache;
use crate::state::connection::Connection;
use crate::state::service::Service;
use batch_signing::UnsignedReplies;
use headers::RequestHeaders;
use inbound_message::InboundMessage;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};
use suspended::{FlushingReplies, ParkedCall, SuspendedCall};
use transport::Parking;
pub use transport::{Client, Settings, Stats, VolumeConnections};
use vfs::{FsError, Namespace, VolumeId};
pub use view::{Usage, View};

struct Smb {
    service: Arc<Service>,
    /// Calls that are tried again after a while.
    parking: Parking<ParkedCall>,
}

/// The memory of a thread: the namespace at the start of its turn.
struct Memory {
    namespace: Arc<Namespace>,
    /// Replies that are signed together when they leave.
    unsigned: UnsignedReplies,
    /// Directories that paths of this turn have led through.
    path_cache: PathCache,
}

struct PlannedCall {
    connection: Arc<Connection>,
    /// The plain form of an encrypted or compressed message.
    inbound: InboundMessage,
    /// The maximum length of the reply, where only the compressed message is kept.
    reply_bytes_max: Option<u32>,
    /// Whether the message ids are consumed. A message that has not arrived completely keeps them: its commands are
    /// unknown.
    has_consumed_ids: bool,
    /// The headers of the commands, once their ids are consumed.
    headers: RequestHeaders,
    /// The volume that admits the message as a whole.
    admitted_volume: Option<VolumeId>,
}

/// The point at which a call continues.
enum Continuation {
    /// A command that has to wait.
    Suspended(Box<SuspendedCall>),
    /// Replies that wait for flushes.
    Replied(Box<FlushingReplies>),
}

/// A long message that is still arriving. All of it is tail: signatures, encryption and compression cover the whole
/// message.
struct Upload {
    call: PlannedCall,
    refusal: Option<FsError>,
}

pub struct Server {
    server: transport::Server<Smb>,
    service: Arc<Service>,
}

impl Server {
    pub fn start(service: Arc<Service>, listeners: Vec<TcpListener>, settings: Settings) -> io::Result<Self> {
        let parking = Parking::new("smb-parked", PARKED_CALLS_MAX, PARKED_BYTES_MAX);
        let listeners = listeners.into_iter().map(|listener| (listener, ())).collect();
        let smb = Arc::new(Smb { service: Arc::clone(&service), parking });
        service.cleanup.start()?;
        let server = transport::Server::start(smb, "smb", listeners, settings)?;
        Ok(Self { server, service })
    }

    pub fn view(&self) -> View {
        View { transport: self.server.view(), service: Arc::clone(&self.service) }
    }

    /// Stops accepting connections and calls. Waits at most `patience` for the calls in flight, and for the cleanup of
    /// closed connections.
    pub fn stop(self, patience: Duration) {
        let deadline = Instant::now() + patience;
        self.server.stop(patience / 2);
        self.service.cleanup.stop(deadline.saturating_duration_since(Instant::now()));
    }
}
