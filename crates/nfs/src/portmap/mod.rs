//! Portmap.
pub mod wire;

use crate::call::Call;
use crate::rpc::dispatch::{Attempt, Outcome};
use crate::rpc::reply::Replies;

/// A program that the port mapper tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Program number.
    pub program: u32,
    /// Version.
    pub version: u32,
    /// TCP port.
    pub port: u16,
}

pub(crate) fn answer(_call: &mut Call<'_>, _version: u32, _procedure: u32, _args: &[u8], _out: &mut Replies) -> Attempt {
    Ok(Outcome::NoProcedure)
}
