//! Shares and server information (MS-SRVS, MS-WKST).

use crate::metadata::names::{folded, is_spelled};
use crate::request::context::RequestContext;
use crate::request::export_access::{IPC, is_sealed, request_origin, share_flags, visible_exports};
use crate::state::tree::share_name;
use smb_wire::rpc::srvsvc::{
    self, Server, ServerType, Share, ShareKind, ShareModifiers, server_get_info_results, share_enum_results,
    share_get_info_results,
};
use smb_wire::rpc::wkssvc::{self, Workstation, wksta_get_info_results};
use smb_wire::rpc::{Call, Fault, Win32Error};
use smb_wire::tree::ShareFlags;
use std::sync::Arc;
use vfs::{Export, ExportRule, ShareSettings};

/// Windows 10, a version that has these dialects.
const VERSION: (u32, u32) = (10, 0);

pub(super) fn server(cx: &RequestContext<'_, '_>, call: Call<'_>) -> Result<Vec<u8>, Fault> {
    let results = match srvsvc::Call::decode(call.opnum, call.stub)? {
        srvsvc::Call::ShareEnum { level, resume_handle, .. } => {
            share_enum_results(level, resume_handle, &shares(cx, |share| share.browsable))
        }
        srvsvc::Call::ShareGetInfo { net_name, level } => {
            let folded_name = folded(&net_name.units().collect::<Vec<_>>());
            let share = share_named(cx, &folded_name);
            share_get_info_results(level, share.as_ref().ok_or(Win32Error::NERR_NET_NAME_NOT_FOUND))
        }
        srvsvc::Call::ServerGetInfo { level } => {
            let server = Server {
                name: &cx.message.service.authority.names.netbios,
                version_major: VERSION.0,
                version_minor: VERSION.1,
                server_type: ServerType::WORKSTATION
                    | ServerType::SERVER
                    | ServerType::NT
                    | ServerType::SERVER_NT,
                comment: "",
                users: u32::MAX,
            };
            server_get_info_results(level, &server)
        }
    };
    Ok(results)
}

pub(super) fn workstation(cx: &RequestContext<'_, '_>, call: Call<'_>) -> Result<Vec<u8>, Fault> {
    let wkssvc::Call::WkstaGetInfo { level } = wkssvc::Call::decode(call.opnum, call.stub)?;
    let names = &cx.message.service.authority.names;
    let workstation = Workstation {
        computer_name: &names.netbios,
        lan_group: &names.netbios_domain,
        version_major: VERSION.0,
        version_minor: VERSION.1,
        logged_on_users: 0,
    };
    Ok(wksta_get_info_results(level, &workstation))
}

/// Lists the shares that this client may connect to, with matching settings. Never discloses storage paths.
fn shares<'c>(cx: &RequestContext<'_, 'c>, is: impl Fn(&ShareSettings) -> bool) -> Vec<Share<'c>> {
    let disks = visible_exports(cx).filter(|(export, _)| is(&export.share));
    disks.map(|(export, rule)| disk(export, rule)).chain([ipc()]).collect()
}

/// Finds a share by folded name that this client may connect to. Checks the name first: one message can ask for many
/// shares.
fn share_named<'c>(cx: &RequestContext<'_, 'c>, folded_name: &[u16]) -> Option<Share<'c>> {
    let of_name = |export: &&Arc<Export>| is_spelled(share_name(export), folded_name);
    let from = request_origin(cx);
    let found = cx.message.namespace.exports().iter().filter(of_name);
    let mut disks = found.filter_map(|export| Some(disk(export, export.rule(from)?)));
    disks.next().or_else(|| is_spelled(IPC, folded_name).then(ipc))
}

fn disk<'c>(export: &'c Export, rule: &ExportRule) -> Share<'c> {
    let flags = share_flags(is_sealed(export, rule), export.share.compression, export);
    share(share_name(export), ShareKind::DISKTREE, ShareModifiers::empty(), flags)
}

fn ipc() -> Share<'static> {
    share(IPC, ShareKind::IPC, ShareModifiers::SPECIAL, ShareFlags::NO_CACHING)
}

fn share(net_name: &str, kind: ShareKind, modifiers: ShareModifiers, flags: ShareFlags) -> Share<'_> {
    Share { net_name, kind, modifiers, remark: "", path: "", max_uses: u32::MAX, current_uses: 0, flags }
}
