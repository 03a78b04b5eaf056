//! The gateway of each endpoint. Every gateway computes the same from what it sees; where they see different things, the
//! compare-and-set of the lease decides.

use crate::record::Name;
use std::collections::{BTreeMap, BTreeSet};

/// A gateway's view of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    /// Gateways that live and are not drained, and the endpoints that each could not start lately.
    pub ready: BTreeMap<Name, BTreeSet<Name>>,
    /// Gateways that live but are drained.
    pub drained: BTreeSet<Name>,
    pub endpoints: BTreeMap<Name, Wish>,
}

/// An endpoint, as far as its place depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The gateway that the administrator chose.
    pub preferred: Option<Name>,
    /// The gateway that has the lease, if it is not over.
    pub holder: Option<Name>,
}

/// The next step of one gateway for an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The lease is free or over, and this gateway is the one to take it.
    Take(Name),
    /// Another gateway is to serve the endpoint: end it in good order.
    HandOver(Name),
}

impl Placement {
    /// The steps of the gateway `own`.
    pub fn steps(&self, own: &Name) -> Vec<Step> {
        let places = self.places();
        let step = |endpoint: &Name, wish: &Wish| {
            let place = places.get(endpoint)?;
            match &wish.holder {
                None if *place == own => Some(Step::Take(endpoint.clone())),
                Some(holder) if holder == own && *place != own => Some(Step::HandOver(endpoint.clone())),
                _ => None,
            }
        };
        self.endpoints.iter().filter_map(|(endpoint, wish)| step(endpoint, wish)).collect()
    }

    /// The gateway of each endpoint; none if no gateway is ready.
    fn places(&self) -> BTreeMap<&Name, &Name> {
        let mut loads: BTreeMap<&Name, usize> = self.ready.keys().map(|gateway| (gateway, 0)).collect();
        let mut places = BTreeMap::new();
        let mut homeless = Vec::new();
        for (endpoint, wish) in &self.endpoints {
            match self.fixed_place(endpoint, wish) {
                Some(gateway) => {
                    *loads.entry(gateway).or_default() += 1;
                    places.insert(endpoint, gateway);
                }
                None => homeless.push(endpoint),
            }
        }
        for endpoint in homeless {
            let able = loads.iter().filter(|(gateway, _)| self.can_start(gateway, endpoint));
            let Some((&gateway, _)) = able.min_by_key(|(gateway, load)| (**load, **gateway)) else {
                continue;
            };
            *loads.entry(gateway).or_default() += 1;
            places.insert(endpoint, gateway);
        }
        places
    }

    /// The preferred gateway if it can serve the endpoint, or else the one that serves it already.
    fn fixed_place<'p>(&'p self, endpoint: &Name, wish: &'p Wish) -> Option<&'p Name> {
        let preferred = wish.preferred.as_ref().filter(|gateway| self.can_start(gateway, endpoint));
        let holder = wish.holder.as_ref().filter(|gateway| self.ready.contains_key(*gateway));
        preferred.or(holder)
    }

    fn can_start(&self, gateway: &Name, endpoint: &Name) -> bool {
        self.ready.get(gateway).is_some_and(|failed| !failed.contains(endpoint))
    }
}
