//! The handshake of coordinator and agent. Each side proves that it has the token, the coordinator first.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use report::result::Machine;

use super::limits::VERSION;
use super::message::{Handshake, Hello, PROTOCOL};
use super::token::{Role, Token, is_nonce, nonce};
use super::wire::{HANDSHAKE, Wire};
use super::wrong_tokens::WrongTokens;
use crate::error::Error;

/// The coordinator's side. Returns the agent's machine, without a name.
pub(super) fn offer(wire: &Wire, token: &Token) -> Result<Machine, String> {
    let own = hello().map_err(|wrong| wrong.to_string())?;
    let nonce = own.nonce.clone();
    wire.send(&Handshake::Hello(own))?;
    let Handshake::Hello(agent) = hear(wire)? else {
        return Err("it is no agent: it said no hello".to_owned());
    };
    check(&agent)?;
    let nonces = [nonce.as_str(), agent.nonce.as_str()];
    wire.send(&Handshake::Proof { mac: token.proof(Role::Coordinator, nonces) })?;
    let Handshake::Welcome { mac, machine } = hear(wire)? else {
        return Err("it is no agent: it did not answer the proof".to_owned());
    };
    if !token.is_proven(&mac, Role::Agent, nonces) {
        return Err("it does not have the token; another program may listen at its address".to_owned());
    }
    Ok(machine)
}

/// A coordinator that has proven the token and waits for the welcome.
pub(super) struct ProvenCoordinator {
    pub(super) program: String,
    mac: String,
}

/// The agent's side, until the coordinator has proven the token. Sends the reason of a refusal.
pub(super) fn admit(
    wire: &Wire,
    token: &Token,
    from: IpAddr,
    wrong_tokens: &Mutex<WrongTokens>,
) -> Result<ProvenCoordinator, String> {
    let wrong_tokens = || wrong_tokens.lock().unwrap_or_else(PoisonError::into_inner);
    let Handshake::Hello(coordinator) = hear(wire)? else {
        return Err("it said no hello".to_owned());
    };
    check(&coordinator).map_err(|why| refuse(wire, &format!("the coordinator is not understood: {why}")))?;
    if !wrong_tokens().allows(from, Instant::now()) {
        return Err(refuse(wire, "too many wrong tokens from this address: wait a few seconds"));
    }
    let own = hello().map_err(|wrong| refuse(wire, &wrong.to_string()))?;
    let nonces = [coordinator.nonce.as_str(), &own.nonce.clone()];
    wire.send(&Handshake::Hello(own))?;
    let Handshake::Proof { mac } = hear(wire)? else {
        return Err("it proved nothing".to_owned());
    };
    if !token.is_proven(&mac, Role::Coordinator, nonces) {
        wrong_tokens().record(from, Instant::now());
        return Err(refuse(wire, "wrong token: the coordinator's token file is not the agent's"));
    }
    Ok(ProvenCoordinator { program: coordinator.program, mac: token.proof(Role::Agent, nonces) })
}

pub(super) fn welcome(wire: &Wire, proven: &ProvenCoordinator, machine: Machine) -> Result<(), String> {
    Ok(wire.send(&Handshake::Welcome { mac: proven.mac.clone(), machine })?)
}

pub(super) fn refuse(wire: &Wire, why: &str) -> String {
    // The other side may be gone; it is refused in any case.
    _ = wire.send(&Handshake::Refused { why: why.to_owned() });
    why.to_owned()
}

fn hello() -> Result<Hello, Error> {
    Ok(Hello {
        protocol: PROTOCOL.to_owned(),
        version: VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        nonce: nonce()?,
    })
}

fn hear(wire: &Wire) -> Result<Handshake, String> {
    match wire.receive(HANDSHAKE)?.0 {
        Handshake::Refused { why } => Err(format!("it refused: {why}")),
        handshake => Ok(handshake),
    }
}

fn check(hello: &Hello) -> Result<(), String> {
    let Hello { protocol, version, program, nonce } = hello;
    if protocol != PROTOCOL || !is_nonce(nonce) {
        return Err(format!("its hello is not that of {PROTOCOL}"));
    }
    if *version != VERSION {
        return Err(format!(
            "it is plimsoll {program} and speaks version {version} of the agents' protocol, here it is {VERSION}; \
             use the same plimsoll on all machines"
        ));
    }
    Ok(())
}
