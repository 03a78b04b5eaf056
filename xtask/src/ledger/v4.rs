//! NFSv4.1 (RFC 8881), as far as a reader without opens needs it: a session with one slot.

use super::client::{Call, Client, Failure, Reply};
use crate::server::Endpoint;

const PROCEDURE: u32 = 1;
const VERSION: u32 = 4;
const MINOR_VERSION: u32 = 1;
const SESSION_BYTES: usize = 16;
const MESSAGE_MAX: u32 = 1 << 20;

/// Operations, RFC 8881 §16.2.3.
const LOOKUP: u32 = 15;
const PUT_ROOT_FH: u32 = 24;
const READ: u32 = 25;
const EXCHANGE_ID: u32 = 42;
const CREATE_SESSION: u32 = 43;
const SEQUENCE: u32 = 53;
const RECLAIM_COMPLETE: u32 = 58;

/// A session that reads files by path.
pub(crate) struct Session {
    client: Client,
    id: Vec<u8>,
    sequence: u32,
}

impl Session {
    /// Connects as the client `owner`, which has nothing to reclaim.
    pub(crate) fn open(endpoint: &Endpoint, owner: &str) -> Result<Self, Failure> {
        let mut client = Client::connect(endpoint.address)?;
        let (id, sequence) = exchange_id(&mut client, owner)?;
        let id = create_session(&mut client, id, sequence)?;
        let mut session = Self { client, id, sequence: 0 };
        session.compound(1, Call::default().u32(RECLAIM_COMPLETE).u32(0))?;
        Ok(session)
    }

    /// Returns the number of bytes that were read at `offset`, under the anonymous stateid (RFC 8881 §8.2.3).
    pub(crate) fn read(&mut self, path: &[&str], offset: u64, count: u32) -> Result<usize, Failure> {
        let mut operations = Call::default().u32(PUT_ROOT_FH);
        for name in path {
            operations = operations.u32(LOOKUP).opaque(name.as_bytes());
        }
        let anonymous = [0; 4];
        operations = anonymous.into_iter().fold(operations.u32(READ), Call::u32).u64(offset).u32(count);
        let operations_count = u32::try_from(path.len()).map_err(|_| Failure::Malformed("path"))? + 2;
        let mut reply = self.compound(operations_count, operations)?;
        (0..=path.len()).try_for_each(|_| result(&mut reply))?;
        result(&mut reply)?;
        reply.u32()?;
        Ok(reply.opaque()?.len())
    }

    /// Sends operations after a SEQUENCE, and returns the reply behind its result.
    fn compound(&mut self, count: u32, operations: Call) -> Result<Reply, Failure> {
        self.sequence += 1;
        let sequence = Call::default().u32(SEQUENCE).bytes(&self.id).u32(self.sequence);
        let all = sequence.u32(0).u32(0).u32(0).bytes(&operations.0);
        let mut reply = compound(&mut self.client, count + 1, &all)?;
        result(&mut reply)?;
        reply.bytes(SESSION_BYTES)?;
        (0..5).try_for_each(|_| reply.u32().map(drop))?;
        Ok(reply)
    }
}

/// Returns the client id and the sequence number of the first session.
fn exchange_id(client: &mut Client, owner: &str) -> Result<(u64, u32), Failure> {
    // The verifier is that of a client that never restarts. No flags, no state protection, no implementation.
    let call = Call::default().u32(EXCHANGE_ID).u64(1).opaque(owner.as_bytes()).u32(0).u32(0).u32(0);
    let mut reply = compound(client, 1, &call)?;
    result(&mut reply)?;
    Ok((reply.u64()?, reply.u32()?))
}

fn create_session(client: &mut Client, id: u64, sequence: u32) -> Result<Vec<u8>, Failure> {
    // Padding, longest request, reply and cached reply, operations, requests, no RDMA (RFC 8881 §18.36.1).
    let channel =
        |call: Call| [0, MESSAGE_MAX, MESSAGE_MAX, 4096, 16, 1, 0].into_iter().fold(call, Call::u32);
    let call = Call::default().u32(CREATE_SESSION).u64(id).u32(sequence).u32(0);
    let call = channel(channel(call));
    // The program of callbacks, and one security flavor for them: none.
    let call = call.u32(0x4000_0000).u32(1).u32(0);
    let mut reply = compound(client, 1, &call)?;
    result(&mut reply)?;
    Ok(reply.bytes(SESSION_BYTES)?.to_vec())
}

/// Makes a compound call and reads its reply up to the first result.
fn compound(client: &mut Client, count: u32, operations: &Call) -> Result<Reply, Failure> {
    let call = Call::default().opaque(b"").u32(MINOR_VERSION).u32(count).bytes(&operations.0);
    let mut reply = client.nfs_of(VERSION, PROCEDURE, &call)?;
    reply.opaque()?;
    reply.u32()?;
    Ok(reply)
}

/// Reads the operation and the status of a result. A status other than zero is that of the compound too.
fn result(reply: &mut Reply) -> Result<(), Failure> {
    reply.u32()?;
    match reply.u32()? {
        0 => Ok(()),
        status => Err(Failure::Status(status)),
    }
}
