//! Numbers and names of procedures, operations and requests, under which calls are counted.

use wire_client::Version;
use wire_client::call::Call;
use wire_client::nfs3::call::procedure;
use wire_client::nfs4::call::operation;
use wire_client::smb::call::command;

pub(super) fn number(call: &Call<'_>, version: Version) -> u32 {
    match version {
        Version::V3 => procedure(call.kind()).0,
        Version::V41 | Version::V42 => operation(call.kind()).0,
        Version::Smb(_) => command(call.kind()).0.into(),
    }
}

pub(super) fn name(call: &Call<'_>, version: Version) -> String {
    match version {
        Version::V3 => format!("{:?}", procedure(call.kind())),
        Version::V41 | Version::V42 => format!("{:?}", operation(call.kind())),
        Version::Smb(_) => format!("{:?}", command(call.kind())),
    }
}
