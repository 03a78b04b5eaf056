//! The numbers under which calls are counted, and their names, in each version.

use wire_client::Version;
use wire_client::call::Call;
use wire_client::nfs3::call::procedure;
use wire_client::nfs4::call::operation;
use wire_client::smb::call::command;

/// The number of a call's procedure, operation or request.
pub(super) fn number(call: &Call<'_>, version: Version) -> u32 {
    match version {
        Version::V3 => procedure(call.kind()).0,
        Version::V41 | Version::V42 => operation(call.kind()).0,
        Version::Smb(_) => command(call.kind()).0.into(),
    }
}

/// The name of a call's procedure, operation or request.
pub(super) fn name(call: &Call<'_>, version: Version) -> String {
    match version {
        Version::V3 => format!("{:?}", procedure(call.kind())),
        Version::V41 | Version::V42 => format!("{:?}", operation(call.kind())),
        Version::Smb(_) => format!("{:?}", command(call.kind())),
    }
}
