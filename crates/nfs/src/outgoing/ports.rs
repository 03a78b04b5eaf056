//! Ports of programs on clients' hosts, from their port mappers, cached.

use super::{Caller, Outgoing};
use crate::portmap::Transport;
use nfs_wire::portmap::{
    IPPROTO_TCP, IPPROTO_UDP, Mapping, PMAP_VERSION, PROGRAM, PmapProcedure, RPCB_VERSION_4, Rpcb,
    RpcbProcedure, Uaddr,
};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};
use vfs::sync::Mutex;
use xdr::{Decode, Encode, Reader};

/// Lifetime of a cached port, and of a failure to find one.
const PORT_TTL: Duration = Duration::from_secs(60);
const FAILURE_TTL: Duration = Duration::from_secs(10);
const PORTS_MAX: usize = 4096;

type Program = (IpAddr, u32, u32, Transport);

pub(super) struct Ports {
    portmap_port: u16,
    ports: Mutex<HashMap<Program, (Option<u16>, Instant)>>,
}

impl Ports {
    pub(super) fn new(portmap_port: u16) -> Self {
        Self { portmap_port, ports: Mutex::default() }
    }

    /// `None`: the program is not registered, or the port mapper does not answer.
    pub(super) fn of(&self, caller: &Caller, call: &Outgoing, transport: Transport) -> Option<u16> {
        let program = (call.host, call.program, call.version, transport);
        if let Some(&(port, until)) = self.lock_ports().get(&program)
            && Instant::now() < until
        {
            return port;
        }
        let port = self.query(caller, call, transport);
        let until = Instant::now() + if port.is_some() { PORT_TTL } else { FAILURE_TTL };
        let mut ports = self.lock_ports();
        if ports.len() >= PORTS_MAX {
            // Clearing everything is rare, and simpler than tracking use.
            ports.clear();
        }
        ports.insert(program, (port, until));
        port
    }

    pub(super) fn forget(&self, call: &Outgoing) {
        self.lock_ports().remove(&(call.host, call.program, call.version, Transport::Udp));
    }

    fn lock_ports(&self) -> MutexGuard<'_, HashMap<Program, (Option<u16>, Instant)>> {
        self.ports.lock()
    }

    fn query(&self, caller: &Caller, call: &Outgoing, transport: Transport) -> Option<u16> {
        let port = match call.host {
            IpAddr::V4(_) => {
                let prot = match transport {
                    Transport::Udp => IPPROTO_UDP,
                    Transport::Tcp => IPPROTO_TCP,
                };
                let args = Mapping { prog: call.program, vers: call.version, prot, port: 0 }.to_bytes();
                let question = Outgoing { args, ..question(call, PMAP_VERSION, PmapProcedure::GETPORT.0) };
                let reply = caller.exchange(&question, self.portmap_port, transport)?;
                u32::decode(&mut Reader::new(&reply)).ok()?
            }
            // Version 2 cannot express IPv6.
            IpAddr::V6(_) => {
                let netid: &[u8] = match transport {
                    Transport::Udp => b"udp6",
                    Transport::Tcp => b"tcp6",
                };
                let args = Rpcb { prog: call.program, vers: call.version, netid, addr: b"", owner: b"" };
                let question = question(call, RPCB_VERSION_4, RpcbProcedure::GETADDR.0);
                let question = Outgoing { args: args.to_bytes(), ..question };
                let reply = caller.exchange(&question, self.portmap_port, transport)?;
                port_of(Uaddr::decode(&mut Reader::new(&reply)).ok()?.0)?
            }
        };
        u16::try_from(port).ok().filter(|&port| port != 0)
    }
}

fn question(call: &Outgoing, version: u32, procedure: u32) -> Outgoing {
    let Outgoing { host, from, .. } = *call;
    Outgoing { host, from, program: PROGRAM, version, procedure, args: Vec::new() }
}

/// The port in a universal address, its last two numbers (RFC 5665 §5.2.3.3).
fn port_of(address: &[u8]) -> Option<u32> {
    let mut parts = std::str::from_utf8(address).ok()?.rsplit('.');
    let (low, high) = (parts.next()?.parse::<u8>().ok()?, parts.next()?.parse::<u8>().ok()?);
    Some(u32::from(u16::from_be_bytes([high, low])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn universal_addresses_end_with_their_port() {
        assert_eq!(port_of(b"fd00::1.8.1"), Some(2049));
        assert_eq!(port_of(b"10.1.0.1.3.9"), Some(777));
        for wrong in [&b""[..], b"8.1.x", b"256.1", b"1"] {
            assert_eq!(port_of(wrong), None, "{wrong:?}");
        }
    }
}
