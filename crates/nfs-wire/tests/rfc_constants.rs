//! Comparison of this crate's constants with the RFCs'. The files in `rfc/` hold the facts in the RFCs' own notation.
//! Every group of them is one set of this crate, name for name and value for value, in both directions.

use std::collections::{BTreeMap, BTreeSet};

use nfs_wire::{mount, nlm, nsm, portmap, rpc, rquota, v3, v4};

/// The values by name, by group: an enumeration, a program, or a file's loose constants.
type Groups<'a> = BTreeMap<String, BTreeMap<&'a str, u32>>;

type Table = &'static [(&'static str, u32)];

/// This crate's sets by the RFC's group, with the file of the facts.
const OURS: &[(&str, &str, &[Table])] = &[
    (RFC1813, "const", &[v3::CONSTANTS, v3::Access::NAMED, v3::Properties::NAMED, mount::CONSTANTS]),
    (RFC1813, "nfsstat3", &[v3::Status::NAMED]),
    (RFC1813, "ftype3", &[v3::FileType::NAMED]),
    (RFC1813, "time_how", &[v3::TimeHow::NAMED]),
    (RFC1813, "stable_how", &[v3::StableHow::NAMED]),
    (RFC1813, "createmode3", &[v3::CreateMode::NAMED]),
    (RFC1813, "NFS_PROGRAM", &[v3::Procedure::NAMED]),
    (RFC1813, "mountstat3", &[mount::Status::NAMED]),
    (RFC1813, "MOUNT_PROGRAM", &[mount::Procedure::NAMED]),
    (RFC5531, "auth_flavor", &[rpc::AuthFlavor::NAMED]),
    (RFC5531, "msg_type", &[rpc::MsgType::NAMED]),
    (RFC5531, "reply_stat", &[rpc::ReplyStat::NAMED]),
    (RFC5531, "accept_stat", &[rpc::AcceptStat::NAMED]),
    (RFC5531, "reject_stat", &[rpc::RejectStat::NAMED]),
    (RFC5531, "auth_stat", &[rpc::AuthStat::NAMED]),
    (RFC1833, "const", &[portmap::CONSTANTS]),
    (RFC1833, "nc_semantics", &[portmap::Semantics::NAMED]),
    (RFC1833, "RPCBPROG", &[portmap::RpcbProcedure::NAMED]),
    (RFC1833, "PMAP_PROG", &[portmap::PmapProcedure::NAMED]),
    (
        NFS4,
        "const",
        &[
            v4::CONSTANTS,
            v4::callback::CONSTANTS,
            v4::Access::NAMED,
            v4::Mode::NAMED,
            v4::ShareAccess::NAMED,
            v4::ShareDeny::NAMED,
            v4::OpenResult::NAMED,
            v4::ExchangeIdFlags::NAMED,
            v4::CreateSessionFlags::NAMED,
            v4::SequenceStatus::NAMED,
            v4::attr::NAMED,
            v4::attr::FhExpireType::NAMED,
            v4::attr::AclSupport::NAMED,
            v4::attr::AceType::NAMED,
            v4::attr::AceFlag::NAMED,
            v4::attr::AceMask::NAMED,
            v4::attr::AclFlag::NAMED,
        ],
    ),
    (NFS4, "nfs_ftype4", &[v4::FileType::NAMED]),
    (NFS4, "nfsstat4", &[v4::Status::NAMED]),
    (NFS4, "nfs_opnum4", &[v4::Op::NAMED]),
    (NFS4, "NFS4_PROGRAM", &[v4::Procedure::NAMED]),
    (NFS4, "stable_how4", &[v4::StableHow::NAMED]),
    (NFS4, "time_how4", &[v4::attr::TimeHow::NAMED]),
    (NFS4, "change_attr_type4", &[v4::attr::ChangeAttrType::NAMED]),
    (NFS4, "open_args_share_access_want4", &[v4::attr::OpenArgsWant::NAMED]),
    (NFS4, "nfs_lock_type4", &[v4::LockType::NAMED]),
    (NFS4, "createmode4", &[v4::CreateMode::NAMED]),
    (NFS4, "opentype4", &[v4::OpenType::NAMED]),
    (NFS4, "limit_by4", &[v4::LimitBy::NAMED]),
    (NFS4, "open_delegation_type4", &[v4::DelegationType::NAMED]),
    (NFS4, "open_claim_type4", &[v4::OpenClaimType::NAMED]),
    (NFS4, "why_no_delegation4", &[v4::WhyNoDelegation::NAMED]),
    (NFS4, "gddrnf4_status", &[v4::DirDelegationStatus::NAMED]),
    (NFS4, "rpc_gss_svc_t", &[v4::GssService::NAMED]),
    (NFS4, "secinfo_style4", &[v4::SecinfoStyle::NAMED]),
    (NFS4, "channel_dir_from_client4", &[v4::ChannelDirFromClient::NAMED]),
    (NFS4, "channel_dir_from_server4", &[v4::ChannelDirFromServer::NAMED]),
    (NFS4, "state_protect_how4", &[v4::StateProtectHow::NAMED]),
    (NFS4, "layoutiomode4", &[v4::LayoutIomode::NAMED]),
    (NFS4, "layoutreturn_type4", &[v4::LayoutReturnType::NAMED]),
    (NFS4, "netloc_type4", &[v4::NetLocType::NAMED]),
    (NFS4, "data_content4", &[v4::DataContent::NAMED]),
    (NFS4, "IO_ADVISE_type4", &[v4::IoAdviseType::NAMED]),
    (NFS4, "setxattr_option4", &[v4::SetxattrOption::NAMED]),
    (NFS4, "nfs_cb_opnum4", &[v4::callback::Op::NAMED]),
    (NFS4, "NFS4_CALLBACK", &[v4::callback::Procedure::NAMED]),
    (NLM, "const", &[nlm::CONSTANTS]),
    (NLM, "nlm4_stats", &[nlm::Status::NAMED]),
    (NLM, "fsh4_mode", &[nlm::ShareMode::NAMED]),
    (NLM, "fsh4_access", &[nlm::ShareAccess::NAMED]),
    (NLM, "NLM_PROG", &[nlm::Procedure::NAMED]),
    (NSM, "const", &[nsm::CONSTANTS]),
    (NSM, "res", &[nsm::Monitored::NAMED]),
    (NSM, "SM_PROG", &[nsm::Procedure::NAMED]),
    (RQUOTA, "const", &[rquota::CONSTANTS]),
    (RQUOTA, "gqr_status", &[rquota::Status::NAMED]),
    (RQUOTA, "RQUOTAPROG", &[rquota::Procedure::NAMED]),
];

const RFC1813: &str = include_str!("rfc/rfc1813.x");
const RFC5531: &str = include_str!("rfc/rfc5531.x");
const RFC1833: &str = include_str!("rfc/rfc1833.x");
const NFS4: &str = include_str!("rfc/nfs4.x");
const NLM: &str = include_str!("rfc/nlm.x");
const NSM: &str = include_str!("rfc/nsm.x");
const RQUOTA: &str = include_str!("rfc/rquota.x");

const SOURCES: &[&str] = &[
    include_str!("../src/rpc.rs"),
    include_str!("../src/mount.rs"),
    include_str!("../src/nlm.rs"),
    include_str!("../src/nsm.rs"),
    include_str!("../src/portmap.rs"),
    include_str!("../src/rquota.rs"),
    include_str!("../src/v3/mod.rs"),
    include_str!("../src/v3/types.rs"),
    include_str!("../src/v4/mod.rs"),
    include_str!("../src/v4/attr.rs"),
    include_str!("../src/v4/callback.rs"),
    include_str!("../src/v4/client40.rs"),
    include_str!("../src/v4/delegation.rs"),
    include_str!("../src/v4/dir.rs"),
    include_str!("../src/v4/file.rs"),
    include_str!("../src/v4/layout.rs"),
    include_str!("../src/v4/lock.rs"),
    include_str!("../src/v4/open.rs"),
    include_str!("../src/v4/ops.rs"),
    include_str!("../src/v4/ranges.rs"),
    include_str!("../src/v4/session.rs"),
    include_str!("../src/v4/types.rs"),
    include_str!("../src/v4/xattr.rs"),
];

#[test]
fn every_group_equals_the_rfc() {
    for text in [RFC1813, RFC5531, RFC1833, NFS4, NLM, NSM, RQUOTA] {
        let mut ours = BTreeSet::new();
        for (_, group, tables) in OURS.iter().filter(|(file, ..)| *file == text) {
            for (name, value) in tables.concat() {
                assert!(ours.insert((*group, name, value)), "{group} names {name} twice");
            }
        }
        let groups = parse(text);
        let theirs: BTreeSet<_> = groups
            .iter()
            .flat_map(|(group, names)| names.iter().map(|(name, value)| (group.as_str(), *name, *value)))
            .collect();
        assert_eq!(Vec::from_iter(&ours - &theirs), [], "only ours");
        assert_eq!(Vec::from_iter(&theirs - &ours), [], "only the RFC's");
    }
}

/// Every name in quotes in the sources is in the tables above.
#[test]
fn every_name_in_the_sources_is_compared_with_an_rfc() {
    let compared: BTreeSet<&str> =
        OURS.iter().flat_map(|(_, _, tables)| tables.concat()).map(|(name, _)| name).collect();
    let declared: BTreeSet<&str> = SOURCES
        .iter()
        .flat_map(|source| source.lines())
        .filter(|line| line.contains("\" = ") || line.contains("#[xdr(name"))
        .flat_map(|line| line.split('"').skip(1).step_by(2))
        .collect();
    assert_eq!(declared, compared);
}

/// Parses `const`, `enum` and `program` declarations of the RPC language (RFC 5531 §12, RFC 4506 §6). Programs and
/// versions are loose constants; a program's procedures are one group over all versions.
fn parse(text: &str) -> Groups<'_> {
    let mut groups = Groups::new();
    let mut open: Vec<(&str, &str)> = Vec::new();
    let mut words = words(text).into_iter().peekable();
    let mut last = "";
    while let Some(word) = words.next() {
        match word {
            "const" => {}
            "enum" | "program" | "version" => {
                open.push((word, words.next().expect("a name")));
                assert_eq!(words.next(), Some("{"));
            }
            "=" => {
                let value = number(words.next().expect("a value"));
                // After a closing brace the number is that of the program or version just closed.
                let (group, name) = match (last, open.first()) {
                    ("}", _) => ("const", open.pop().expect("a block").1),
                    (_, Some((_, group))) => (*group, last),
                    (_, None) => ("const", last),
                };
                let before = groups.entry(group.to_owned()).or_default().insert(name, value);
                assert!(before.is_none_or(|before| before == value), "{name} has two values");
            }
            "}" if open.last().is_some_and(|(kind, _)| *kind == "enum") => {
                open.pop();
            }
            "(" => {
                // The argument's type: the procedure's name stays the last word.
                assert!(words.by_ref().any(|word| word == ")"));
                continue;
            }
            _ => {}
        }
        last = word;
    }
    assert!(open.is_empty(), "{open:?} not closed");
    groups
}

fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for part in text.split("/*") {
        // The first part has no comment that ends.
        let mut rest = part.split_once("*/").map_or(part, |(_, code)| code);
        while let Some(start) = rest.find(|c: char| !c.is_whitespace()) {
            rest = &rest[start..];
            let word = |c: char| c.is_alphanumeric() || c == '_';
            let end = rest.find(|c| !word(c)).unwrap_or(rest.len()).max(1);
            words.push(&rest[..end]);
            rest = &rest[end..];
        }
    }
    words
}

fn number(word: &str) -> u32 {
    match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).unwrap(),
        None => word.parse().unwrap(),
    }
}
