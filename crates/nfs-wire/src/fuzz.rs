//! The entry for fuzzers and the smoke test: every decoder under one selector. Not part of the interface.

use xdr::{Decode, Encode, Reader};

use crate::{mount, nlm, nsm, portmap, rpc, rquota, v3, v4};

/// A decoder of arbitrary bytes. `false`: malformed.
///
/// # Panics
///
/// If a decoded value does not survive encoding and decoding again.
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

pub const RPC: &[(&str, Decoder)] =
    decoders![rpc::CallHeader<'_>, rpc::ReplyHeader<'_>, rpc::OpaqueAuth<'_>, rpc::AuthSys<'_>];

/// The decoders of a server, without version 4: the arguments of every procedure that has any.
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
    nlm::TestArgs<'_, u32>,
    nlm::TestArgs<'_, u64>,
    nlm::LockArgs<'_, u32>,
    nlm::LockArgs<'_, u64>,
    nlm::CancelArgs<'_, u64>,
    nlm::UnlockArgs<'_, u64>,
    nlm::ShareArgs<'_>,
    nlm::Notify<'_>,
    nsm::Name<'_>,
    nsm::MonitorArgs<'_>,
    nsm::StatusChange<'_>,
    rquota::GetArgs<'_>,
    rquota::ExtGetArgs<'_>,
    rquota::SetArgs<'_>,
    rquota::ExtSetArgs<'_>,
];

/// The decoders of a client, without version 4: the results of every procedure that has any.
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
    nlm::Reply<'_>,
    nlm::TestReply<'_, u32>,
    nlm::TestReply<'_, u64>,
    nlm::ShareReply<'_>,
    nsm::StatReply,
    rquota::QuotaReply,
];

/// The decoders of a server for version 4: the arguments of every operation, the results of callbacks, and the values
/// of attributes that clients set.
pub const V4_ARGS: &[(&str, Decoder)] = decoders![
    v4::CompoundHead<'_>,
    v4::Argument<'_>,
    v4::AccessArgs,
    v4::CloseArgs,
    v4::CommitArgs,
    v4::CreateArgs<'_>,
    v4::DelegpurgeArgs,
    v4::DelegreturnArgs,
    v4::GetattrArgs,
    v4::LinkArgs<'_>,
    v4::LockArgs<'_>,
    v4::LocktArgs<'_>,
    v4::LockuArgs,
    v4::LookupArgs<'_>,
    v4::NverifyArgs<'_>,
    v4::OpenArgs<'_>,
    v4::OpenattrArgs,
    v4::OpenConfirmArgs,
    v4::OpenDowngradeArgs,
    v4::PutfhArgs<'_>,
    v4::ReadArgs,
    v4::ReaddirArgs,
    v4::RemoveArgs<'_>,
    v4::RenameArgs<'_>,
    v4::RenewArgs,
    v4::SecinfoArgs<'_>,
    v4::SetattrArgs<'_>,
    v4::SetclientidArgs<'_>,
    v4::SetclientidConfirmArgs,
    v4::VerifyArgs<'_>,
    v4::WriteArgs<'_>,
    v4::ReleaseLockownerArgs<'_>,
    v4::BackchannelCtlArgs<'_>,
    v4::BindConnToSessionArgs,
    v4::ExchangeIdArgs<'_>,
    v4::CreateSessionArgs<'_>,
    v4::DestroySessionArgs,
    v4::FreeStateidArgs,
    v4::GetDirDelegationArgs,
    v4::GetdeviceinfoArgs,
    v4::GetdevicelistArgs,
    v4::LayoutcommitArgs<'_>,
    v4::LayoutgetArgs,
    v4::LayoutreturnArgs<'_>,
    v4::SecinfoNoNameArgs,
    v4::SequenceArgs,
    v4::SetSsvArgs<'_>,
    v4::TestStateidArgs,
    v4::WantDelegationArgs,
    v4::DestroyClientidArgs,
    v4::ReclaimCompleteArgs,
    v4::AllocateArgs,
    v4::CopyArgs<'_>,
    v4::CopyNotifyArgs<'_>,
    v4::DeallocateArgs,
    v4::IoAdviseArgs,
    v4::LayouterrorArgs,
    v4::LayoutstatsArgs<'_>,
    v4::OffloadCancelArgs,
    v4::OffloadStatusArgs,
    v4::ReadPlusArgs,
    v4::SeekArgs,
    v4::WriteSameArgs<'_>,
    v4::CloneArgs,
    v4::GetxattrArgs<'_>,
    v4::SetxattrArgs<'_>,
    v4::ListxattrsArgs,
    v4::RemovexattrArgs<'_>,
    v4::WriteHead,
    v4::callback::CompoundReplyHead<'_>,
    v4::callback::OpReply<'_>,
    v4::callback::GetattrReply<'_>,
    v4::callback::SequenceReply,
    v4::Fattr<'_>,
    v4::attr::SetTime,
    v4::attr::Acl<'_>,
    v4::attr::Acl41<'_>,
    v4::attr::ModeMasked,
    v4::attr::ModeUmask,
    v4::attr::SecLabel<'_>,
];

/// The decoders of a client for version 4: the results of every operation that are more than a status, the arguments of
/// callbacks, and the values of read-only attributes.
pub const V4_REPLIES: &[(&str, Decoder)] = decoders![
    v4::CompoundReplyHead<'_>,
    v4::OpReply<'_>,
    v4::AccessReply,
    v4::CloseReply,
    v4::CommitReply,
    v4::CreateReply,
    v4::GetattrReply<'_>,
    v4::GetfhReply<'_>,
    v4::LinkReply,
    v4::LockReply<'_>,
    v4::LocktReply<'_>,
    v4::LockuReply,
    v4::OpenReply<'_>,
    v4::OpenConfirmReply,
    v4::OpenDowngradeReply,
    v4::ReadReply<'_>,
    v4::ReaddirReply<'_>,
    v4::ReadlinkReply<'_>,
    v4::RemoveReply,
    v4::RenameReply,
    v4::SecinfoReply<'_>,
    v4::SetattrReply,
    v4::SetclientidReply<'_>,
    v4::WriteReply,
    v4::BindConnToSessionReply,
    v4::ExchangeIdReply<'_>,
    v4::CreateSessionReply,
    v4::GetDirDelegationReply,
    v4::GetdeviceinfoReply<'_>,
    v4::GetdevicelistReply,
    v4::LayoutcommitReply,
    v4::LayoutgetReply<'_>,
    v4::LayoutreturnReply,
    v4::SecinfoNoNameReply<'_>,
    v4::SequenceReply,
    v4::SetSsvReply<'_>,
    v4::TestStateidReply,
    v4::WantDelegationReply<'_>,
    v4::CopyReply,
    v4::CopyNotifyReply<'_>,
    v4::IoAdviseReply,
    v4::OffloadStatusReply,
    v4::ReadPlusReply<'_>,
    v4::SeekReply,
    v4::WriteSameReply,
    v4::GetxattrReply<'_>,
    v4::SetxattrReply,
    v4::ListxattrsReply<'_>,
    v4::RemovexattrReply,
    v4::callback::CompoundHead<'_>,
    v4::callback::Argument<'_>,
    v4::callback::GetattrArgs<'_>,
    v4::callback::RecallArgs<'_>,
    v4::callback::RecallAnyArgs,
    v4::callback::RecallableObjAvailArgs,
    v4::callback::RecallSlotArgs,
    v4::callback::SequenceArgs,
    v4::callback::WantsCancelledArgs,
    v4::callback::NotifyLockArgs<'_>,
    v4::callback::OffloadArgs<'_>,
    v4::Bitmap,
    v4::attr::FsLocations<'_>,
    v4::attr::OpenArguments,
];

/// Runs one decoder on the input: the first byte selects it from `table`.
pub fn decode(table: &[(&str, Decoder)], input: &[u8]) -> bool {
    let Some((selector, bytes)) = input.split_first() else { return false };
    let (_, decoder) = table[usize::from(*selector) % table.len()];
    decoder(bytes)
}
