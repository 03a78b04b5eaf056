//! The exports of the service: an immutable snapshot that the data plane reads and only management replaces.

mod pseudo;
mod refusals;
mod share;

pub use pseudo::PseudoDir;
pub use refusals::Refusals;
pub use share::ShareSettings;

use crate::model::caller::INVALID_ID;
use crate::model::caller::{Caller, Credential, Proof};
use crate::model::volume_id::VolumeId;
use crate::volume::Volume;
use arc_swap::ArcSwap;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

/// An export's number: part of every handle, so it must not change while clients hold any. The first export of a volume
/// has the volume's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExportId(pub u64);

impl From<VolumeId> for ExportId {
    /// The number of a volume's first export.
    fn from(volume: VolumeId) -> Self {
        Self(volume.0)
    }
}

/// A range of addresses, as in `10.1.0.0/16` or `2001:db8::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: u128,
    mask: u128,
    is_v6: bool,
    prefix: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadCidr {
    Unreadable(String),
    /// The range begins among the IPv4-mapped addresses and extends beyond them.
    Mixed(String),
}

/// The replacement of identities that clients claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// Root becomes the anonymous user; other users stay.
    #[default]
    Root,
    /// Every user becomes the anonymous user.
    All,
    None,
}

/// A protocol, by a number below 8. The servers and the authors of rules agree on the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProtocolId(pub u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProtocolSet(u8);

impl ProtocolSet {
    pub const ALL: Self = Self(u8::MAX);

    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    #[inline]
    pub const fn contains(self, protocol: ProtocolId) -> bool {
        self.0 & 1 << protocol.0 != 0
    }
}

/// The protection of a connection, from least to most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Protection {
    /// Neither confidential nor protected from changes.
    #[default]
    Plain,
    /// Encrypted, without a client certificate.
    Encrypted,
    /// Encrypted, with a trusted client certificate.
    Verified,
}

/// One line of an export policy; the first that matches client and protocol decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportRule {
    /// Client addresses; empty matches every client.
    pub clients: Vec<Cidr>,
    pub protocols: ProtocolSet,
    /// Whether matching clients are refused, regardless of later rules.
    pub no_access: bool,
    pub read_only: bool,
    pub squash: Squash,
    pub anonymous_uid: u32,
    pub anonymous_gid: u32,
    /// The least protection of a connection that this rule admits.
    pub protection: Protection,
}

/// The address of a client, and the server address that it has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub client: IpAddr,
    /// The endpoint; `None` at the service's own addresses, where every export is.
    pub endpoint: Option<IpAddr>,
    pub protocol: ProtocolId,
    pub protection: Protection,
}

/// Access that an export has granted. State that was acquired with it stays while the export would still grant it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportAccess {
    pub export: ExportId,
    /// The [`Volume::incarnation`] that it is of: a volume that was closed and opened again has none of it.
    pub incarnation: u64,
    pub origin: Origin,
    /// Whether the access is for changes, or denies others changes.
    pub changes: bool,
}

/// A volume at a path, with its policy. A volume may have several exports; a [`crate::File`] belongs to one of them.
/// A snapshot is exported as a volume over the backend that shows it.
pub struct Export {
    pub id: ExportId,
    /// The path clients mount: starts with `/`, no `/` at the end unless that is all.
    pub path: String,
    pub volume: Arc<Volume>,
    /// Rules of access; a client that no rule matches is refused.
    pub rules: Vec<ExportRule>,
    /// Addresses that serve this export besides the service's own. Other addresses hide it.
    pub endpoints: Vec<IpAddr>,
    pub share: ShareSettings,
}

/// An immutable snapshot of all exports.
#[derive(Default)]
pub struct Namespace {
    exports: Vec<Arc<Export>>,
    by_id: HashMap<ExportId, usize, BuildHasherDefault<OwnHash>>,
    /// The indexes of exports that have others below their paths.
    leading_on: HashSet<usize>,
}

/// The identity hash of an [`ExportId`]: the numbers in use were drawn at random or from a secret.
#[derive(Clone, Copy, Default)]
struct OwnHash(u64);

impl Hasher for OwnHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// The current [`Namespace`], for the data plane.
pub type SharedNamespace = Arc<ArcSwap<Namespace>>;

/// The default user and group of squashed callers (`nobody`).
pub const ANONYMOUS_ID: u32 = 65534;

impl Namespace {
    /// Makes a namespace of these exports; unchanged ones are shared with the earlier namespace by the caller. A later
    /// export with the number of an earlier one is left out.
    pub fn new(exports: impl IntoIterator<Item = impl Into<Arc<Export>>>) -> Self {
        let mut namespace = Self::default();
        for export in exports {
            let export: Arc<Export> = export.into();
            let place = namespace.exports.len();
            if let Entry::Vacant(slot) = namespace.by_id.entry(export.id) {
                slot.insert(place);
                namespace.exports.push(export);
            }
        }
        let paths: BTreeSet<&str> = namespace.exports.iter().map(|export| &*export.path).collect();
        let leads_on = |export: &Export| {
            let below = format!("{}/", export.path.trim_end_matches('/'));
            let after = (Bound::Excluded(&*below), Bound::Unbounded);
            paths.range::<str, _>(after).next().is_some_and(|path| path.starts_with(&below))
        };
        let exports = namespace.exports.iter().enumerate();
        namespace.leading_on =
            exports.filter(|(_, export)| leads_on(export)).map(|(place, _)| place).collect();
        namespace
    }

    /// Whether other exports lie below the path of this one.
    #[inline]
    pub fn leads_on(&self, export: ExportId) -> bool {
        !self.leading_on.is_empty()
            && self.by_id.get(&export).is_some_and(|place| self.leading_on.contains(place))
    }

    pub fn exports(&self) -> &[Arc<Export>] {
        &self.exports
    }

    #[inline]
    pub fn export(&self, id: ExportId) -> Option<&Arc<Export>> {
        self.by_id.get(&id).map(|&place| &self.exports[place])
    }

    pub fn volume(&self, id: VolumeId) -> Option<&Arc<Export>> {
        self.export(id.into()).filter(|export| export.volume.id() == id)
    }

    /// Whether any export admits this client, at any address and protection.
    pub fn admits_from(&self, client: IpAddr, protocol: ProtocolId) -> bool {
        let is_for = |rule: &&ExportRule| rule.protocols.contains(protocol) && rule.matches(client);
        let rules = self.exports.iter().filter_map(|export| export.rules.iter().find(is_for));
        rules.into_iter().any(|rule| !rule.no_access)
    }

    /// Whether an export still has the volume of then, admits a client that it has admitted, and permits changes if the
    /// access was for changes.
    pub fn admits(&self, admission: &ExportAccess) -> bool {
        let is_same = |export: &&Arc<Export>| export.volume.incarnation() == admission.incarnation;
        let export = self.export(admission.export).filter(is_same);
        let rule = export.and_then(|export| export.rule(admission.origin));
        rule.is_some_and(|rule| !(rule.read_only && admission.changes))
    }

    /// Whether this export has its volume still, as opened then.
    pub fn serves(&self, export: &Export) -> bool {
        self.export(export.id).is_some_and(|now| Arc::ptr_eq(&now.volume, &export.volume))
    }

    /// The directory above all exports, as it is seen from `origin`.
    pub fn root(&self, origin: Origin) -> PseudoDir<'_> {
        PseudoDir::root(self, origin)
    }

    /// An export at `path` or below it.
    pub fn at_or_below(&self, path: &str) -> Option<&Export> {
        let is_there = |export: &&Arc<Export>| {
            export.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.exports.iter().find(is_there).map(|export| &**export)
    }

    /// Returns the export at `path`, and the rest of the path below it: the longest match wins.
    pub fn resolve<'p>(&self, path: &'p str) -> Option<(&Arc<Export>, &'p str)> {
        let rest_below = |export: &Export| {
            let rest = path.strip_prefix(export.path.trim_end_matches('/'))?;
            (rest.is_empty() || rest.starts_with('/')).then_some(rest)
        };
        let below = self.exports.iter().filter_map(|export| Some((export, rest_below(export)?)));
        let (export, rest) = below.min_by_key(|(_, rest)| rest.len())?;
        Some((export, rest.trim_matches('/')))
    }
}

impl Export {
    /// An export of a volume. All rules of a volume that is read-only are.
    pub fn new(path: impl Into<String>, volume: Arc<Volume>, mut rules: Vec<ExportRule>) -> Self {
        let is_read_only = volume.is_read_only();
        rules.iter_mut().for_each(|rule| rule.read_only |= is_read_only);
        Self {
            id: volume.id().into(),
            path: path.into(),
            volume,
            rules,
            endpoints: Vec::new(),
            share: ShareSettings::default(),
        }
    }

    /// Adds addresses at which the export is served.
    #[must_use]
    pub fn at(self, endpoints: Vec<IpAddr>) -> Self {
        Self { endpoints, ..self }
    }

    #[must_use]
    pub fn shared(self, share: ShareSettings) -> Self {
        Self { share, ..self }
    }

    /// Whether the export is served at the endpoint of a call.
    #[inline]
    pub fn is_at(&self, endpoint: Option<IpAddr>) -> bool {
        endpoint.is_none_or(|address| self.endpoints.contains(&address))
    }

    /// Returns the rule for a call, if any admits it. The origin decides, and the export must be served at the address
    /// that the call has reached. A rule that needs more protection than the call has refuses it; later rules do not
    /// apply.
    #[inline]
    pub fn rule(&self, origin: Origin) -> Option<&ExportRule> {
        let is_for =
            |rule: &&ExportRule| rule.protocols.contains(origin.protocol) && rule.matches(origin.client);
        let rule = self.rules.iter().find(is_for);
        rule.filter(|rule| {
            !rule.no_access && origin.protection >= rule.protection && self.is_at(origin.endpoint)
        })
    }
}

impl Origin {
    /// A call to one of the service's own addresses, with the first protocol and without protection.
    pub fn of(client: IpAddr) -> Self {
        Self { client, endpoint: None, protocol: ProtocolId::default(), protection: Protection::Plain }
    }
}

impl ExportRule {
    /// A rule for all clients: read and write, root squashed.
    pub fn everybody() -> Self {
        Self {
            clients: Vec::new(),
            protocols: ProtocolSet::ALL,
            no_access: false,
            read_only: false,
            squash: Squash::Root,
            anonymous_uid: ANONYMOUS_ID,
            anonymous_gid: ANONYMOUS_ID,
            protection: Protection::Plain,
        }
    }

    /// Whether this rule is for `client`.
    #[inline]
    pub fn matches(&self, client: IpAddr) -> bool {
        self.clients.is_empty() || self.clients.iter().any(|range| range.contains(client))
    }

    /// Whether the rule treats matching clients like `other` does.
    pub fn treats_like(&self, other: &Self) -> bool {
        let Self {
            clients: _,
            protocols: _,
            no_access,
            read_only,
            squash,
            anonymous_uid,
            anonymous_gid,
            protection,
        } = self;
        (*no_access, *read_only, *squash, *protection)
            == (other.no_access, other.read_only, other.squash, other.protection)
            && (*anonymous_uid, *anonymous_gid) == (other.anonymous_uid, other.anonymous_gid)
    }

    /// Applies this rule to a credential and returns the caller. A client that names no user, or [`INVALID_ID`],
    /// becomes the anonymous user even without squashing: no caller has that number as user or group.
    pub fn caller(&self, credential: &Arc<Credential>) -> Caller {
        let or_nobody = |id| if id == INVALID_ID { ANONYMOUS_ID } else { id };
        let (uid, gid) = (or_nobody(self.anonymous_uid), or_nobody(self.anonymous_gid));
        let (is_squashed, squashed_groups) = match self.squash {
            Squash::All => (true, &[][..]),
            Squash::Root => (credential.uid == 0, &[0, INVALID_ID][..]),
            Squash::None => (false, &[INVALID_ID][..]),
        };
        let identity = if is_squashed || credential.uid == INVALID_ID {
            Credential::new(Proof::None, uid, gid, [])
        } else {
            credential.with_groups_replaced(squashed_groups, gid)
        };
        Caller::of(identity, self.read_only)
    }
}

impl Cidr {
    /// Whether `address` lies in the range. An IPv4 client that came over an IPv6 socket counts as IPv4.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (bits, is_v6) = bits(address.to_canonical());
        is_v6 == self.is_v6 && bits & self.mask == self.address
    }

    /// Whether all addresses of `other` lie in the range.
    pub fn covers(&self, other: &Self) -> bool {
        other.is_v6 == self.is_v6
            && other.mask & self.mask == self.mask
            && other.address & self.mask == self.address
    }
}

impl From<IpAddr> for Cidr {
    fn from(address: IpAddr) -> Self {
        let (address, is_v6) = bits(address.to_canonical());
        let prefix = if is_v6 { 128 } else { 32 };
        let mask = if is_v6 { u128::MAX } else { u128::MAX << 96 };
        Self { address, mask, is_v6, prefix }
    }
}

const MAPPED_PREFIX: u8 = 96;

fn bits(address: IpAddr) -> (u128, bool) {
    match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, false),
        IpAddr::V6(v6) => (v6.to_bits(), true),
    }
}

impl std::str::FromStr for Cidr {
    type Err = BadCidr;

    fn from_str(text: &str) -> Result<Self, BadCidr> {
        let bad = || BadCidr::Unreadable(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u8>().map_err(|_| bad())?)),
            None => (text, None),
        };
        let written: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if written.is_ipv4() { 32 } else { 128 };
        let mut prefix = prefix.unwrap_or(most);
        if prefix > most {
            return Err(bad());
        }
        // ::ffff:10.0.0.0/104 is 10.0.0.0/8: clients are known by their IPv4 addresses.
        let canonical = written.to_canonical();
        if canonical != written {
            prefix = prefix.checked_sub(MAPPED_PREFIX).ok_or_else(|| BadCidr::Mixed(text.to_owned()))?;
        }
        let (address, is_v6) = bits(canonical);
        let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
        Ok(Self { address: address & mask, mask, is_v6, prefix })
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_v6 {
            write!(f, "{}/{}", std::net::Ipv6Addr::from_bits(self.address), self.prefix)
        } else {
            let high = u32::try_from(self.address >> 96).unwrap_or(0);
            write!(f, "{}/{}", std::net::Ipv4Addr::from_bits(high), self.prefix)
        }
    }
}

impl std::fmt::Display for BadCidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreadable(text) => {
                write!(f, "\"{text}\" is no address range: write 10.1.0.0/16, 192.168.1.7 or 2001:db8::/32")
            }
            Self::Mixed(text) => write!(
                f,
                "\"{text}\" has IPv4 addresses and others: write ranges of IPv4 as such, like 10.1.0.0/16 or 0.0.0.0/0"
            ),
        }
    }
}

impl std::error::Error for BadCidr {}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed(uid: u32, gid: u32, groups: &[u32]) -> Arc<Credential> {
        Credential::new(Proof::Claimed, uid, gid, groups.iter().copied())
    }

    fn anonymous(uid: u32, gid: u32) -> Caller {
        Caller::of(Credential::new(Proof::None, uid, gid, []), false)
    }

    #[test]
    fn ranges_hold_their_addresses() {
        let range: Cidr = "10.1.0.0/16".parse().unwrap();
        assert!(range.contains("10.1.255.3".parse().unwrap()));
        assert!(range.contains("::ffff:10.1.2.3".parse().unwrap()), "IPv4 over an IPv6 socket");
        assert!(!range.contains("10.2.0.1".parse().unwrap()));
        assert!("0.0.0.0/0".parse::<Cidr>().unwrap().contains("1.2.3.4".parse().unwrap()));
        assert!(!"0.0.0.0/0".parse::<Cidr>().unwrap().contains("::1".parse().unwrap()));
        assert!("2001:db8::/32".parse::<Cidr>().unwrap().contains("2001:db8::9".parse().unwrap()));
        for text in ["10.1.0.0/33", "ten", "10.0.0.1/", "10.0.0/8", ""] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
        assert_eq!("10.1.2.3/16".parse::<Cidr>().unwrap().to_string(), "10.1.0.0/16");
        for (other, is_covered) in [
            ("10.1.0.0/16", true),
            ("10.1.2.3", true),
            ("10.0.0.0/8", false),
            ("10.2.0.0/24", false),
            ("::/0", false),
        ] {
            assert_eq!(range.covers(&other.parse().unwrap()), is_covered, "{other}");
        }
        for address in ["10.1.2.3", "2001:db8::9"] {
            assert_eq!(Cidr::from(address.parse::<IpAddr>().unwrap()), address.parse().unwrap());
        }
    }

    #[test]
    fn address_of_ipv4_written_as_ipv6_is_the_same_client() {
        let range = |text: &str| text.parse::<Cidr>();
        for (mapped, plain) in [
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("::ffff:10.1.2.3/128", "10.1.2.3/32"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:a01:203/120", "10.1.2.0/24"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
        ] {
            assert_eq!(range(mapped), range(plain), "{mapped}");
            assert_eq!(range(mapped).unwrap().to_string(), range(plain).unwrap().to_string());
        }
        for mixed in ["::ffff:10.0.0.0/95", "::ffff:0:0/80", "::ffff:1.2.3.4/0"] {
            assert_eq!(range(mixed), Err(BadCidr::Mixed(mixed.to_owned())));
            assert!(range(mixed).unwrap_err().to_string().contains("write ranges of IPv4 as such"));
        }
        for other in ["::/0", "::1", "::fffe:10.0.0.1", "2001:db8::/32"] {
            assert!(!range(other).unwrap().contains("10.0.0.1".parse().unwrap()), "{other}");
        }
        let deny =
            ExportRule { clients: vec![range("::ffff:10.1.0.0/112").unwrap()], ..ExportRule::everybody() };
        assert!(
            deny.matches("10.1.2.3".parse().unwrap()) && deny.matches("::ffff:10.1.2.3".parse().unwrap())
        );
        assert!(!deny.matches("10.2.2.3".parse().unwrap()));
    }

    #[test]
    fn squashing_replaces_root_in_every_place() {
        let rule = ExportRule::everybody();
        assert_eq!(rule.caller(&claimed(0, 0, &[0])), anonymous(ANONYMOUS_ID, ANONYMOUS_ID));
        assert_eq!(
            rule.caller(&claimed(7, 0, &[5, 0])),
            Caller::new(7, ANONYMOUS_ID, [5, ANONYMOUS_ID]),
            "the root group is squashed too"
        );
        assert_eq!(rule.caller(&Credential::none()).uid, ANONYMOUS_ID);
        let open = ExportRule { squash: Squash::None, read_only: true, ..rule };
        assert_eq!(open.caller(&claimed(0, 0, &[])).uid, 0);
        assert!(open.caller(&Credential::none()).read_only);
    }

    #[test]
    fn a_squashed_group_takes_no_other_with_it() {
        let caller = ExportRule::everybody().caller(&claimed(7, 8, &(0..10_000).collect::<Vec<_>>()));
        assert!((1..10_000).all(|group| caller.is_in(group)) && caller.is_in(ANONYMOUS_ID));
        assert!(!caller.is_in(0));
    }

    #[test]
    fn no_caller_has_an_id_that_means_unchanged() {
        let anonymous_71 = anonymous(71, 72);
        for squash in [Squash::Root, Squash::All, Squash::None] {
            let rule = ExportRule { squash, anonymous_uid: 71, anonymous_gid: 72, ..ExportRule::everybody() };
            let of = |uid, gid, groups: &[u32]| rule.caller(&claimed(uid, gid, groups));
            assert_eq!(of(INVALID_ID, INVALID_ID, &[]), anonymous_71, "{squash:?}");
            assert_eq!(of(INVALID_ID, 100, &[5]), anonymous_71, "{squash:?}");
            let all = squash == Squash::All;
            let expected = if all { anonymous_71.clone() } else { Caller::new(7, 72, [5, 6]) };
            assert_eq!(of(7, INVALID_ID, &[5, INVALID_ID, 6]), expected, "{squash:?}");
            // Such a rule is refused, but may have been stored before it was.
            let bad = ExportRule { anonymous_uid: INVALID_ID, anonymous_gid: INVALID_ID, ..rule };
            let nobody = anonymous(ANONYMOUS_ID, ANONYMOUS_ID);
            assert_eq!(bad.caller(&Credential::none()), nobody, "{squash:?}");
            assert_eq!(bad.caller(&claimed(INVALID_ID, 1, &[])), nobody, "{squash:?}");
        }
    }

    #[test]
    fn an_invalid_group_takes_the_place_of_no_other() {
        let groups = std::iter::repeat_n(INVALID_ID, 40).chain([5]);
        assert_eq!(Caller::new(1, 1, groups).groups(), [5]);
    }
}
