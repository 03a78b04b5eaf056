//! The gateway of each endpoint. Every gateway computes the same from what it sees; where they see different things, the
//! compare-and-set of the lease decides.

use crate::record::Name;
use std::collections::{BTreeMap, BTreeSet};

/// A gateway's view of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    /// Gateways that live and are not drained, and the endpoints that each cannot serve: it could not start them lately, or
    /// its program is too old for their state.
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
    /// Whether no gateway is to serve it.
    pub is_stopped: bool,
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
            let place = places.get(endpoint).copied();
            let is_elsewhere = wish.is_stopped || place.is_some_and(|place| place != own);
            match &wish.holder {
                None if !wish.is_stopped && place == Some(own) => Some(Step::Take(endpoint.clone())),
                // Without another place, a drained gateway goes on.
                Some(holder) if holder == own && is_elsewhere => Some(Step::HandOver(endpoint.clone())),
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
        for (endpoint, wish) in self.endpoints.iter().filter(|(_, wish)| !wish.is_stopped) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    /// Ready gateways, and endpoints with their preferred gateways and holders.
    fn placement(ready: &[&str], endpoints: &[(&str, Option<&str>, Option<&str>)]) -> Placement {
        let ready = ready.iter().map(|gateway| (name(gateway), BTreeSet::new())).collect();
        let wish = |&(endpoint, preferred, holder): &(&str, Option<&str>, Option<&str>)| {
            let wish = Wish { preferred: preferred.map(name), holder: holder.map(name), is_stopped: false };
            (name(endpoint), wish)
        };
        Placement { ready, endpoints: endpoints.iter().map(wish).collect(), ..Placement::default() }
    }

    fn take(endpoint: &str) -> Step {
        Step::Take(name(endpoint))
    }

    fn hand_over(endpoint: &str) -> Step {
        Step::HandOver(name(endpoint))
    }

    #[test]
    fn free_endpoints_spread_over_ready_gateways() {
        let free = [("v", None, None), ("w", None, None), ("x", None, None), ("y", None, Some("a"))];
        let placement = placement(&["a", "b"], &free);
        assert_eq!(placement.steps(&name("a")), [take("w")]);
        assert_eq!(placement.steps(&name("b")), [take("v"), take("x")]);
        assert_eq!(placement.steps(&name("c")), []);
    }

    #[test]
    fn endpoint_stays_where_it_is_served_unless_another_gateway_is_preferred() {
        let served = [("x", None, Some("a")), ("y", None, Some("a")), ("z", Some("b"), Some("a"))];
        let both = placement(&["a", "b"], &served);
        assert_eq!(both.steps(&name("a")), [hand_over("z")]);
        assert_eq!(both.steps(&name("b")), [], "it is still served");
        assert_eq!(placement(&["a"], &served).steps(&name("a")), []);
    }

    #[test]
    fn drained_gateway_hands_over_as_soon_as_another_one_is_ready() {
        let served = [("x", Some("a"), Some("a"))];
        assert_eq!(placement(&["b"], &served).steps(&name("a")), [hand_over("x")]);
        assert_eq!(placement(&[], &served).steps(&name("a")), []);
        assert_eq!(placement(&["b"], &[("x", Some("a"), None)]).steps(&name("b")), [take("x")]);
    }

    #[test]
    fn gateway_that_could_not_start_an_endpoint_leaves_it_to_others() {
        let mut placement = placement(&["a", "b"], &[("x", Some("a"), None)]);
        placement.ready.get_mut(&name("a")).unwrap().insert(name("x"));
        assert_eq!(placement.steps(&name("a")), []);
        assert_eq!(placement.steps(&name("b")), [take("x")]);
    }

    #[test]
    fn stopped_endpoint_is_handed_over_and_not_taken() {
        let mut placement = placement(&["a"], &[("x", Some("a"), Some("a")), ("y", None, None)]);
        placement.endpoints.values_mut().for_each(|wish| wish.is_stopped = true);
        assert_eq!(placement.steps(&name("a")), [hand_over("x")]);
    }
}
