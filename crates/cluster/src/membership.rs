//! The members of a cluster: gateways, endpoints, and changes of them.

use crate::Entropy;
use crate::error::{Error, Result};
use crate::invitation::{INVITATION, Invitation, InvitationRecord};
use crate::key::{ClusterKey, KEY_BYTES};
use crate::lease::{Lease, Times, Watch};
use crate::placement::{Placement, Wish};
use crate::record::{
    ABOUT, About, CLUSTER, DRAIN, ENDPOINT, EndpointRecord, Formats, GATEWAY, GatewayRecord, LEASE, NEEDS,
    Name, Needs, STOP, decode, encode, object,
};
use crate::store::{Change, SharedStore};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The key with the number of administrators' changes. Each change requires the number that it saw, so that two
/// administrators at once never both pass a check.
const CHANGES: &str = "changes";
/// Attempts of a change that meets others.
const ATTEMPTS: u32 = 10;
const ID_BYTES: usize = 16;

/// A cluster, as a member sees it.
#[derive(Clone)]
pub struct Cluster<S> {
    store: S,
    key: ClusterKey,
    formats: Formats,
}

/// The records of a cluster at one time.
#[derive(Clone, Debug)]
pub struct View {
    /// The name of the cluster for clients.
    pub id: String,
    /// The format of its records.
    pub format: u32,
    pub times: Times,
    pub gateways: BTreeMap<Name, GatewayState>,
    pub endpoints: BTreeMap<Name, EndpointState>,
    changes: Option<Vec<u8>>,
    about: Vec<u8>,
    invitations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, Debug)]
pub struct GatewayState {
    pub record: GatewayRecord,
    pub is_drained: bool,
    stored: Vec<u8>,
    /// The stored bytes of the facts about the cluster when this was read.
    about: Vec<u8>,
}

#[derive(Clone, Debug)]
pub struct EndpointState {
    pub record: EndpointRecord,
    /// Whether no gateway is to serve it.
    pub is_stopped: bool,
    /// The format of its state: programs that do not read it cannot serve the endpoint.
    pub state_format: u32,
    /// `None` while it is being created or removed.
    pub lease: Option<Lease>,
    /// The stored bytes of the lease.
    pub stored: Vec<u8>,
}

impl<S: SharedStore> Cluster<S> {
    /// Makes a new cluster with the gateway `first`.
    pub fn init(store: S, first: &Name, lease: Duration, entropy: Entropy<'_>) -> Result<Self> {
        Self::init_as(Formats::OWN, store, first, lease, entropy)
    }

    /// Like [`Self::init`], for a program that reads these formats.
    pub fn init_as(
        formats: Formats,
        store: S,
        first: &Name,
        lease: Duration,
        entropy: Entropy<'_>,
    ) -> Result<Self> {
        let (mut key, mut id) = ([0; KEY_BYTES], [0; ID_BYTES]);
        entropy(&mut key);
        entropy(&mut id);
        let id = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let cluster = Self { store, key: ClusterKey::new(key), formats };
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        let about = cluster.encode(ABOUT, &About { format: formats.newest, id, lease_ms })?;
        let change = Change::default().when(ABOUT, None).set(ABOUT, about).set(CHANGES, b"1".to_vec());
        let change = change.set(format!("{GATEWAY}{first}"), cluster.new_gateway(first)?);
        if cluster.store.change(CLUSTER, &change)? {
            Ok(cluster)
        } else {
            Err(Error::refused(
                "there is a cluster in this pool already: run \"plimsoll cluster invite\" on a gateway and \"plimsoll cluster \
                 join\" here, or choose another pool",
            ))
        }
    }

    /// Opens a cluster that this machine has joined.
    pub fn open(store: S, key: ClusterKey) -> Result<Self> {
        Self::open_as(Formats::OWN, store, key)
    }

    /// Like [`Self::open`], for a program that reads these formats.
    pub fn open_as(formats: Formats, store: S, key: ClusterKey) -> Result<Self> {
        let cluster = Self { store, key, formats };
        cluster.about(&cluster.store.load(CLUSTER, ABOUT)?)?;
        Ok(cluster)
    }

    /// Joins a cluster as the gateway `own`. The invitation is used up.
    pub fn join(store: S, invitation: &Invitation, own: &Name, now_ms: u64) -> Result<Self> {
        Self::join_as(Formats::OWN, store, invitation, own, now_ms)
    }

    /// Like [`Self::join`], for a program that reads these formats.
    pub fn join_as(
        formats: Formats,
        store: S,
        invitation: &Invitation,
        own: &Name,
        now_ms: u64,
    ) -> Result<Self> {
        let place = invitation.key();
        let used = || {
            Error::refused(
                "this invitation was used, has expired, or is of another cluster: ask for a new one",
            )
        };
        let pairs = store.load(CLUSTER, INVITATION)?;
        let stored = pairs.get(&place).ok_or_else(used)?;
        let record: InvitationRecord = serde_json::from_slice(stored).map_err(|_| used())?;
        let key = invitation.open(&record).filter(|_| now_ms < record.expires_ms).ok_or_else(used)?;
        let cluster = Self { store, key, formats };
        let about = cluster.store.load(CLUSTER, ABOUT)?;
        cluster.about(&about)?;
        let gateway = format!("{GATEWAY}{own}");
        let change = Change::default().when(&place, Some(stored)).remove(&place);
        let change = change.when(ABOUT, about.get(ABOUT).map(Vec::as_slice));
        let change = change.when(&gateway, None).set(&gateway, cluster.new_gateway(own)?);
        if cluster.store.change(CLUSTER, &change)? {
            return Ok(cluster);
        }
        if cluster.view()?.gateways.contains_key(own) {
            return Err(Error::refused(format!(
                "the cluster has a gateway {own} already: set another gateway in [cluster]"
            )));
        }
        Err(used())
    }

    /// Makes an invitation, and forgets those that have expired.
    pub fn invite(&self, now_ms: u64, valid_ms: u64, entropy: Entropy<'_>) -> Result<Invitation> {
        let invitation = Invitation::make(entropy);
        let record = invitation.record(&self.key, now_ms.saturating_add(valid_ms), entropy);
        let stored = serde_json::to_vec(&record).map_err(|error| Error::refused(error.to_string()))?;
        let mut change = Change::default().set(invitation.key(), stored);
        for (key, stored) in self.store.load(CLUSTER, INVITATION)? {
            let old = serde_json::from_slice::<InvitationRecord>(&stored);
            if old.is_ok_and(|old| old.expires_ms <= now_ms) {
                change = change.remove(key);
            }
        }
        self.store.change(CLUSTER, &change)?;
        Ok(invitation)
    }

    pub fn key(&self) -> &ClusterKey {
        &self.key
    }

    pub fn store(&self) -> &S {
        &self.store
    }

    /// Reads all records.
    pub fn view(&self) -> Result<View> {
        let pairs = self.store.load(CLUSTER, "")?;
        let about = self.about(&pairs)?;
        let mut view = View {
            id: about.id,
            format: about.format,
            times: Times::of_lease(Duration::from_millis(about.lease_ms)),
            gateways: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            changes: pairs.get(CHANGES).cloned(),
            about: pairs.get(ABOUT).cloned().unwrap_or_default(),
            invitations: pairs
                .iter()
                .filter(|(key, _)| key.starts_with(INVITATION))
                .map(|(key, stored)| (key.clone(), stored.clone()))
                .collect(),
        };
        for (key, stored) in &pairs {
            if let Some(name) = name_in(key, GATEWAY) {
                let is_drained = pairs.contains_key(&format!("{DRAIN}{name}"));
                let record = decode(&self.key, CLUSTER, key, stored)?;
                let (stored, about) = (stored.clone(), view.about.clone());
                view.gateways.insert(name, GatewayState { record, is_drained, stored, about });
            }
            if let Some(name) = name_in(key, ENDPOINT) {
                let record = decode(&self.key, CLUSTER, key, stored)?;
                let is_stopped = pairs.contains_key(&format!("{STOP}{name}"));
                let state_format = self.state_format(&pairs, &name)?;
                view.endpoints.insert(name.clone(), self.endpoint(&name, record, is_stopped, state_format)?);
            }
        }
        Ok(view)
    }

    fn endpoint(
        &self,
        name: &Name,
        record: EndpointRecord,
        is_stopped: bool,
        state_format: u32,
    ) -> Result<EndpointState> {
        let object = object(name);
        let stored = self.store.load(&object, LEASE)?.remove(LEASE);
        let lease = stored.as_ref().map(|stored| decode(&self.key, &object, LEASE, stored)).transpose()?;
        Ok(EndpointState { record, is_stopped, state_format, lease, stored: stored.unwrap_or_default() })
    }

    /// The format of an endpoint's state. Programs that do not note it have the first one.
    fn state_format(&self, pairs: &BTreeMap<String, Vec<u8>>, endpoint: &Name) -> Result<u32> {
        let key = format!("{NEEDS}{endpoint}");
        let needs = pairs.get(&key).map(|stored| decode::<Needs>(&self.key, CLUSTER, &key, stored));
        Ok(needs.transpose()?.map_or(1, |needs| needs.state_format))
    }

    /// Notes that the state of an endpoint is from now on in the latest format that this program has, `own`. Refuses a
    /// state of a later format. The process of the endpoint calls this before it changes the state.
    pub fn require_state_format(&self, endpoint: &Name, own: u32) -> Result<()> {
        let key = format!("{NEEDS}{endpoint}");
        for _ in 0..ATTEMPTS {
            let pairs = self.store.load(CLUSTER, &key)?;
            let found = self.state_format(&pairs, endpoint)?;
            if found > own {
                return Err(Error::refused(format!(
                    "a newer plimsoll has changed the state of the endpoint {endpoint} (format {found}; this one reads formats \
                     up to {own}): upgrade plimsoll on this gateway"
                )));
            }
            if found == own {
                return Ok(());
            }
            let needs = self.encode(&key, &Needs { state_format: own })?;
            let change = Change::default().when(&key, pairs.get(&key).map(Vec::as_slice)).set(&key, needs);
            if self.store.change(CLUSTER, &change)? {
                return Ok(());
            }
        }
        Err(busy())
    }

    /// Raises the format of the cluster to the latest one that this program and all gateways of `view` read. Returns
    /// whether it did.
    pub fn raise_format(&self, view: &View) -> Result<bool> {
        let all = view.gateways.values().map(|gateway| gateway.record.format);
        let format = all.fold(self.formats.newest, u32::min);
        if format <= view.format {
            return Ok(false);
        }
        let lease_ms = u64::try_from(view.times.lease.as_millis()).unwrap_or(u64::MAX);
        let about = self.encode(ABOUT, &About { format, id: view.id.clone(), lease_ms })?;
        let mut change = Change::default().when(ABOUT, Some(&view.about)).set(ABOUT, about);
        // A gateway that meanwhile starts an earlier program changes its record; one that joins uses an invitation up.
        for (name, gateway) in &view.gateways {
            change = change.when(format!("{GATEWAY}{name}"), Some(&gateway.stored));
        }
        for (key, stored) in &view.invitations {
            change = change.when(key, Some(stored));
        }
        Ok(self.store.change(CLUSTER, &change)?)
    }

    /// Replaces the record of the gateway `own`, which `view` shows as this process last wrote it. Returns the new record, or
    /// an error if the gateway was removed or another process runs under its name.
    pub fn beat(&self, own: &Name, last: &GatewayState, next: GatewayRecord) -> Result<GatewayState> {
        let key = format!("{GATEWAY}{own}");
        let record = GatewayRecord { beat: last.record.beat + 1, ..next };
        let stored = self.encode(&key, &record)?;
        let change = Change::default().when(&key, Some(&last.stored)).set(&key, stored.clone());
        if self.store.change(CLUSTER, &change.when(ABOUT, Some(&last.about)))? {
            return Ok(GatewayState { record, stored, ..last.clone() });
        }
        let view = self.view()?;
        match view.gateways.get(own) {
            None => Err(Error::refused(format!("the gateway {own} is not a member of the cluster any more"))),
            // An earlier write of this process was applied although it failed.
            Some(found) if found.record.instance == record.instance => self.beat(own, found, record),
            // The format of the cluster has risen, to one that this program reads.
            Some(found) if found.stored == last.stored => self.beat(own, found, record),
            Some(_) => Err(Error::refused(format!("another process runs as the gateway {own}"))),
        }
    }

    /// Adds an endpoint.
    pub fn create_endpoint(&self, name: &Name, record: &EndpointRecord) -> Result<()> {
        self.change(|view, change| {
            if view.endpoints.get(name).is_some_and(|found| found.lease.is_some()) {
                return Err(Error::refused(format!("there is an endpoint {name} already")));
            }
            let taken = view
                .endpoints
                .iter()
                .find(|(other, found)| *other != name && found.record.address == record.address);
            if let Some((other, _)) = taken {
                return Err(Error::refused(format!(
                    "the endpoint {other} has the address {} already",
                    record.address
                )));
            }
            check_gateway(view, record.gateway.as_ref())?;
            let key = format!("{ENDPOINT}{name}");
            // An earlier program leaves this key when it removes an endpoint.
            let change = change.remove(format!("{NEEDS}{name}"));
            Ok(change.set(&key, self.encode(&key, record)?))
        })?;
        let object = object(name);
        let first = encode(&self.key, &object, LEASE, &Lease::first(record.created_ms))?;
        self.store.change(&object, &Change::default().when(LEASE, None).set(LEASE, first))?;
        Ok(())
    }

    /// Removes an endpoint that no gateway serves, with its state. Its volumes stay on the CephFS.
    pub fn remove_endpoint(&self, name: &Name) -> Result<()> {
        let view = self.view()?;
        let found = view.endpoints.get(name).ok_or_else(|| no_endpoint(&view, name))?;
        if let Some(holder) = found.lease.as_ref().and_then(|lease| lease.holder.as_ref()) {
            return Err(Error::refused(format!(
                "the gateway {} serves the endpoint {name}: stop it first",
                holder.gateway
            )));
        }
        let (object, mut change) = (object(name), Change::default());
        if found.lease.is_some() {
            change = change.when(LEASE, Some(&found.stored));
        }
        change.removals = self.store.load(&object, "")?.into_keys().collect();
        if !change.removals.is_empty() && !self.store.change(&object, &change)? {
            return Err(Error::refused(format!("a gateway has taken the endpoint {name} meanwhile")));
        }
        self.change(|_, change| {
            Ok([ENDPOINT, STOP, NEEDS]
                .into_iter()
                .fold(change, |change, of| change.remove(format!("{of}{name}"))))
        })
    }

    /// Sets whether an endpoint is stopped: no gateway serves it then.
    pub fn set_stopped(&self, endpoint: &Name, is_stopped: bool) -> Result<()> {
        self.change(|view, change| {
            view.endpoints.get(endpoint).ok_or_else(|| no_endpoint(view, endpoint))?;
            let key = format!("{STOP}{endpoint}");
            Ok(if is_stopped { change.set(key, b"1".to_vec()) } else { change.remove(key) })
        })
    }

    /// Chooses the gateway of an endpoint; `None` for any.
    pub fn prefer(&self, name: &Name, gateway: Option<&Name>) -> Result<()> {
        self.change(|view, change| {
            let found = view.endpoints.get(name).ok_or_else(|| no_endpoint(view, name))?;
            check_gateway(view, gateway)?;
            let key = format!("{ENDPOINT}{name}");
            let record = EndpointRecord { gateway: gateway.cloned(), ..found.record.clone() };
            Ok(change.set(&key, self.encode(&key, &record)?))
        })
    }

    /// Sets whether a gateway is drained: its endpoints move to others, and it takes no new ones.
    pub fn set_drained(&self, gateway: &Name, is_drained: bool) -> Result<()> {
        self.change(|view, change| {
            check_gateway(view, Some(gateway))?;
            let key = format!("{DRAIN}{gateway}");
            Ok(if is_drained { change.set(key, b"1".to_vec()) } else { change.remove(key) })
        })
    }

    /// Removes a gateway that serves nothing.
    pub fn remove_gateway(&self, gateway: &Name) -> Result<()> {
        self.change(|view, change| {
            check_gateway(view, Some(gateway))?;
            let holds =
                |endpoint: &&EndpointState| holder(endpoint).is_some_and(|name| name == gateway.as_str());
            if view.endpoints.values().any(|endpoint| holds(&endpoint)) {
                return Err(Error::refused(format!(
                    "the gateway {gateway} serves endpoints: plimsoll cluster drain {gateway}"
                )));
            }
            Ok(change.remove(format!("{GATEWAY}{gateway}")).remove(format!("{DRAIN}{gateway}")))
        })
    }

    /// Makes a change that depends on a view, again if another administrator was faster.
    fn change(&self, make: impl Fn(&View, Change) -> Result<Change>) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let view = self.view()?;
            let text = view.changes.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
            let number: u64 = text.and_then(|text| text.parse().ok()).unwrap_or_default();
            let change = Change::default().when(CHANGES, view.changes.as_deref());
            let change = change.when(ABOUT, Some(&view.about));
            let change = make(&view, change.set(CHANGES, (number + 1).to_string().into_bytes()))?;
            if self.store.change(CLUSTER, &change)? {
                return Ok(());
            }
        }
        Err(busy())
    }

    fn about(&self, pairs: &BTreeMap<String, Vec<u8>>) -> Result<About> {
        let stored = pairs.get(ABOUT).ok_or_else(|| {
            Error::refused("there is no cluster in this pool: make one with \"plimsoll cluster init\"")
        })?;
        let about: About = decode(&self.key, CLUSTER, ABOUT, stored)?;
        self.formats.check(about.format)?;
        Ok(about)
    }

    fn new_gateway(&self, name: &Name) -> Result<Vec<u8>> {
        let record = GatewayRecord {
            instance: 0,
            beat: 0,
            version: String::new(),
            host: String::new(),
            failed: BTreeSet::new(),
            has_stopped: true,
            format: self.formats.newest,
            state_format: 1,
        };
        self.encode(&format!("{GATEWAY}{name}"), &record)
    }

    fn encode<T: serde::Serialize>(&self, key: &str, record: &T) -> Result<Vec<u8>> {
        encode(&self.key, CLUSTER, key, record)
    }
}

/// An observer of a cluster: who has been silent for how long, by its own clock.
#[derive(Debug, Default)]
pub struct Observer {
    gateways: BTreeMap<Name, Watch>,
    leases: BTreeMap<Name, Watch>,
}

impl Observer {
    /// Notes a view that was read before `now`, and returns what it says about the place of each endpoint.
    ///
    /// `own` lives in any case. `ended` are endpoints whose process at this gateway has ended: their leases need not run out.
    pub fn placement(&mut self, view: &View, own: &Name, ended: &BTreeSet<Name>, now: Duration) -> Placement {
        let (mut placement, times) = (Placement::default(), view.times);
        for (name, gateway) in &view.gateways {
            let watch = self.gateways.entry(name.clone()).or_default();
            watch.observe(now, &gateway.stored);
            let is_silent = gateway.record.has_stopped || watch.is_silent(now, times.lease);
            match (name == own || !is_silent, gateway.is_drained) {
                (false, _) => {}
                (true, true) => drop(placement.drained.insert(name.clone())),
                (true, false) => drop(placement.ready.insert(name.clone(), unable(view, gateway))),
            }
        }
        for (name, endpoint) in &view.endpoints {
            let watch = self.leases.entry(name.clone()).or_default();
            watch.observe(now, &endpoint.stored);
            if endpoint.lease.is_none() {
                continue;
            }
            let is_over = ended.contains(name) || watch.is_silent(now, times.lease);
            let holder = holder(endpoint).filter(|_| !is_over).and_then(|name| name.parse().ok());
            // Other gateways wait for the end of the lease, so this one is the fastest to serve it again.
            let is_ended_here = ended.contains(name);
            let preferred = endpoint.record.gateway.clone().or_else(|| is_ended_here.then(|| own.clone()));
            let is_stopped = endpoint.is_stopped;
            placement.endpoints.insert(name.clone(), Wish { preferred, holder, is_stopped });
        }
        self.gateways.retain(|name, _| view.gateways.contains_key(name));
        self.leases.retain(|name, _| view.endpoints.contains_key(name));
        placement
    }
}

/// Endpoints that a gateway cannot serve: it could not start them lately, or its program is too old for their state.
fn unable(view: &View, gateway: &GatewayState) -> BTreeSet<Name> {
    let too_new = |found: &&EndpointState| found.state_format > gateway.record.state_format;
    let too_new = view.endpoints.iter().filter(|(_, found)| too_new(found)).map(|(name, _)| name);
    gateway.record.failed.iter().chain(too_new).cloned().collect()
}

fn busy() -> Error {
    Error::refused("others change the cluster all the time: try again")
}

fn holder(endpoint: &EndpointState) -> Option<&str> {
    endpoint.lease.as_ref()?.holder.as_ref().map(|holder| holder.gateway.as_str())
}

fn name_in(key: &str, prefix: &str) -> Option<Name> {
    key.strip_prefix(prefix)?.parse().ok()
}

fn check_gateway(view: &View, gateway: Option<&Name>) -> Result<()> {
    match gateway.filter(|gateway| !view.gateways.contains_key(*gateway)) {
        None => Ok(()),
        Some(unknown) => {
            let known: Vec<&str> = view.gateways.keys().map(Name::as_str).collect();
            Err(Error::refused(format!(
                "there is no gateway {unknown}; the gateways are {}",
                known.join(", ")
            )))
        }
    }
}

fn no_endpoint(view: &View, name: &Name) -> Error {
    let known: Vec<&str> = view.endpoints.keys().map(Name::as_str).collect();
    let known = if known.is_empty() {
        "there is none yet".to_owned()
    } else {
        format!("the endpoints are {}", known.join(", "))
    };
    Error::refused(format!("there is no endpoint {name}; {known}"))
}
