//! SIDs and names of the service's users and groups (MS-LSAD, MS-LSAT).

use crate::request::context::RequestContext;
use identity::{Principal, PrincipalKind, Resolver, Sid};
use smb_wire::rpc::lsarpc::{
    self, Domain, Handle, SidNameUse, TranslatedName, TranslatedSid, close_results, lookup_names_results,
    lookup_sids_results, open_policy_results, query_information_policy_results,
};
use smb_wire::rpc::{Call, Fault};
use smb_wire::{Decode, Utf16, security};

/// The handle of every policy, which has no state.
const POLICY: Handle = [0, 0, 0, 0, b'p', b'o', b'l', b'i', b'c', b'y', 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

pub(super) fn authority(cx: &RequestContext<'_, '_>, call: Call<'_>) -> Result<Vec<u8>, Fault> {
    let resolver = &*cx.message.service.resolver;
    let results = match lsarpc::Call::decode(call.opnum, call.stub)? {
        lsarpc::Call::OpenPolicy => open_policy_results(POLICY),
        lsarpc::Call::Close { handle } => {
            check(handle)?;
            close_results()
        }
        lsarpc::Call::QueryInformationPolicy { handle, class } => {
            check(handle)?;
            let names = &cx.message.service.authority.names;
            let sid = to_wire(&resolver.machine_sid())?;
            query_information_policy_results(class, &Domain { name: &names.netbios_domain, sid })
        }
        lsarpc::Call::LookupSids { handle, form, sids } => {
            check(handle)?;
            let mut domains = Domains::default();
            let names =
                sids.iter().map(|sid| name_of(resolver, sid, &mut domains)).collect::<Result<Vec<_>, _>>()?;
            lookup_sids_results(form, &domains.on_wire(), &names)
        }
        lsarpc::Call::LookupNames { handle, form, names } => {
            check(handle)?;
            let mut domains = Domains::default();
            let sids = names
                .iter()
                .map(|name| sid_of(resolver, &text(*name), &mut domains))
                .collect::<Result<Vec<_>, _>>()?;
            lookup_names_results(form, &domains.on_wire(), &sids)
        }
    };
    Ok(results)
}

pub(super) fn text(name: Utf16<'_>) -> String {
    String::from_utf8_lossy(&name.to_wtf8()).into_owned()
}

fn check(handle: Handle) -> Result<(), Fault> {
    if handle == POLICY { Ok(()) } else { Err(Fault::CONTEXT_MISMATCH) }
}

/// The distinct domains of the results. There are few, so a linear search suffices.
#[derive(Default)]
struct Domains(Vec<(String, security::Sid)>);

impl Domains {
    fn domain_index(&mut self, principal: &Principal) -> Result<usize, Fault> {
        let sid = to_wire(&principal.sid)?;
        let sid = match principal.kind {
            PrincipalKind::Domain => sid,
            _ => parent(&sid).ok_or(Fault::REMOTE_NO_MEMORY)?,
        };
        let index = self.0.iter().position(|(name, index)| *name == principal.domain && *index == sid);
        Ok(index.unwrap_or_else(|| {
            self.0.push((principal.domain.clone(), sid));
            self.0.len() - 1
        }))
    }

    fn on_wire(&self) -> Vec<Domain<'_>> {
        self.0.iter().map(|(name, sid)| Domain { name, sid: *sid }).collect()
    }
}

fn name_of(
    resolver: &dyn Resolver,
    sid: &security::Sid,
    domains: &mut Domains,
) -> Result<TranslatedName, Fault> {
    let parsed = Sid::from_bytes(sid.as_bytes()).map(|(sid, _)| sid);
    match parsed.as_ref().and_then(|sid| resolver.name_of(sid)) {
        Some(principal) => {
            let domain = Some(domains.domain_index(&principal)?);
            Ok(TranslatedName { name_use: name_use(principal.kind), name: principal.name, domain })
        }
        None => Ok(TranslatedName { name_use: SidNameUse::UNKNOWN, name: format!("{sid:?}"), domain: None }),
    }
}

/// Finds a principal by `name`, `DOMAIN\name` or `name@domain` (MS-LSAT §3.1.4.5).
fn sid_of(resolver: &dyn Resolver, name: &str, domains: &mut Domains) -> Result<TranslatedSid, Fault> {
    let (domain, name) = match (name.split_once('\\'), name.rsplit_once('@')) {
        (Some(parts), _) => parts,
        (None, Some((name, domain))) => (domain, name),
        (None, None) => ("", name),
    };
    match resolver.principal(domain, name) {
        Some(principal) => {
            let domain = Some(domains.domain_index(&principal)?);
            let sid = Some(to_wire(&principal.sid)?);
            Ok(TranslatedSid { name_use: name_use(principal.kind), sid, domain })
        }
        None => Ok(TranslatedSid { name_use: SidNameUse::UNKNOWN, sid: None, domain: None }),
    }
}

pub(super) fn name_use(kind: PrincipalKind) -> SidNameUse {
    match kind {
        PrincipalKind::User => SidNameUse::USER,
        PrincipalKind::Group => SidNameUse::GROUP,
        PrincipalKind::Domain => SidNameUse::DOMAIN,
        PrincipalKind::Alias => SidNameUse::ALIAS,
        PrincipalKind::WellKnownGroup => SidNameUse::WELL_KNOWN_GROUP,
    }
}

pub(super) fn to_wire(sid: &Sid) -> Result<security::Sid, Fault> {
    security::Sid::from_bytes(&sid.to_bytes()).map_err(|_| Fault::REMOTE_NO_MEMORY)
}

fn parent(sid: &security::Sid) -> Option<security::Sid> {
    let numbers: Vec<u32> = sid.sub_authorities().collect();
    let (_, above) = numbers.split_last()?;
    security::Sid::new(sid.authority(), above)
}
