//! The door for fuzzers and the smoke test: every decoder under one selector. No part of the interface.

use xdr::{Decode, Encode, Reader};

use crate::{mount, portmap, rpc, v3};

/// Decodes bytes that may be anything. `false`: malformed.
///
/// # Panics
/// If a value that was decoded does not survive encoding and decoding again.
pub type Decoder = fn(&[u8]) -> bool;

macro_rules! decoders {
    ($($type:ty),* $(,)?) => {
        &[$((stringify!($type), |bytes| {
            let Ok(value) = <$type>::decode(&mut Reader::new(bytes)) else { return false };
            let encoded = value.to_bytes();
            let again = <$type>::decode(&mut Reader::new(&encoded)).expect("what was encoded decodes");
            assert_eq!(again, value);
            assert_eq!(again.to_bytes(), encoded);
            true
        })),*]
    };
}

/// Message headers, both directions.
pub const RPC: &[(&str, Decoder)] =
    decoders![rpc::CallHeader<'_>, rpc::ReplyHeader<'_>, rpc::OpaqueAuth<'_>, rpc::AuthSys<'_>];

/// What a server decodes: the arguments of every procedure that has any.
pub const ARGS: &[(&str, Decoder)] = decoders![
    v3::GetattrArgs<'_>,
    v3::SetattrArgs<'_>,
    v3::LookupArgs<'_>,
    v3::AccessArgs<'_>,
    v3::ReadlinkArgs<'_>,
    v3::ReadArgs<'_>,
    v3::WriteArgs<'_>,
    v3::CreateArgs<'_>,
    v3::MkdirArgs<'_>,
    v3::SymlinkArgs<'_>,
    v3::MknodArgs<'_>,
    v3::RemoveArgs<'_>,
    v3::RmdirArgs<'_>,
    v3::RenameArgs<'_>,
    v3::LinkArgs<'_>,
    v3::ReaddirArgs<'_>,
    v3::ReaddirplusArgs<'_>,
    v3::FsstatArgs<'_>,
    v3::FsinfoArgs<'_>,
    v3::PathconfArgs<'_>,
    v3::CommitArgs<'_>,
    mount::DirPath<'_>,
    portmap::Mapping,
    portmap::Rpcb<'_>,
];

/// What a client decodes: the results of every procedure that has any.
pub const REPLIES: &[(&str, Decoder)] = decoders![
    v3::GetattrReply,
    v3::SetattrReply,
    v3::LookupReply<'_>,
    v3::AccessReply,
    v3::ReadlinkReply<'_>,
    v3::ReadReply<'_>,
    v3::WriteReply,
    v3::CreateReply<'_>,
    v3::RemoveReply,
    v3::RenameReply,
    v3::LinkReply,
    v3::ReaddirReply<'_>,
    v3::ReaddirplusReply<'_>,
    v3::FsstatReply,
    v3::FsinfoReply,
    v3::PathconfReply,
    v3::CommitReply,
    mount::MountReply<'_>,
    mount::FhStatus,
    mount::MountList<'_>,
    mount::Exports<'_>,
    portmap::MappingList,
    portmap::RpcbList<'_>,
    portmap::Uaddr<'_>,
    portmap::RpcbEntryList<'_>,
];

/// Runs the decoder of `table` that the first byte picks on the other bytes.
pub fn decode(table: &[(&str, Decoder)], input: &[u8]) -> bool {
    let Some((selector, bytes)) = input.split_first() else { return false };
    let (_, decoder) = table[usize::from(*selector) % table.len()];
    decoder(bytes)
}
