//! What a scenario sets side by side.

use serde::{Deserialize, Serialize};

use super::{Cache, Point, Scenario, Series};

/// Sides that differ in something, over the same loads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// Its heading.
    pub name: String,
    /// In what the sides differ. The first side is what the others are compared with.
    pub compares: Vec<Compared>,
    /// Whose points they are: several series, or one that has several values of what is compared.
    pub series: Vec<String>,
    /// What the page says of it in its text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
    /// What is to be known of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// A change that a page gives in its text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// At which share of reads, in percent.
    pub reads: u8,
    /// By how many percent the second side differs from the first.
    pub percent: f64,
}

/// In what sides differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compared {
    /// What is meant to be in the server's memory.
    Cache,
    /// Numbers of clients.
    Clients,
    /// Connections of each client.
    Connections,
    /// Largest READ and WRITE.
    Transfers,
    /// Whether attributes are cached.
    AttributeCache,
    /// Whether repetitions come to the same places.
    Places,
    /// Numbers of directories.
    Directories,
    /// Protocols.
    Protocol,
}

impl Compared {
    /// What tells sides apart.
    pub(crate) fn key(self, series: &Series, point: &Point) -> u64 {
        let whole = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let flag = |flag: Option<bool>| flag.map_or(0, |flag| 1 + u64::from(flag));
        match self {
            Self::Cache => match series.cache {
                Cache::Any => 0,
                Cache::Warm => 1,
                Cache::Cold => 2,
            },
            Self::Clients => whole(point.clients),
            Self::Connections => whole(point.connections),
            Self::Transfers => point.transfer.unwrap_or(0),
            Self::AttributeCache => flag(point.attribute_cache),
            Self::Places => flag(point.same_places),
            Self::Directories => whole(point.directories.unwrap_or(1)),
            Self::Protocol => point.protocol.map_or(0, |protocol| 1 + protocol as u64),
        }
    }
}

impl Pair {
    /// Which side a point is on.
    pub(crate) fn side(&self, series: &Series, point: &Point) -> Vec<u64> {
        self.compares.iter().map(|compared| compared.key(series, point)).collect()
    }

    /// Whether it can be shown of this scenario.
    pub(super) fn check(&self, scenario: &Scenario) -> Result<(), String> {
        if self.compares.is_empty() {
            return Err("compares is empty; at least one value is needed".to_owned());
        }
        if self.series.is_empty() {
            return Err("series is empty; at least one name is needed".to_owned());
        }
        let mut sides: Vec<Vec<u64>> = Vec::new();
        for name in &self.series {
            let Some(series) = scenario.series.iter().find(|series| series.name == *name) else {
                return Err(format!("there is no series \"{name}\""));
            };
            for point in series.points() {
                let side = self.side(series, &point);
                if !sides.contains(&side) {
                    sides.push(side);
                }
            }
        }
        if sides.len() < 2 {
            return Err("its series do not differ in what it compares; two sides are needed".to_owned());
        }
        match self.claims.iter().find(|claim| claim.reads > 100 || !claim.percent.is_finite()) {
            Some(claim) => Err(format!(
                "a claim at {} % reads; allowed are 0 to 100, and a change in percent",
                claim.reads
            )),
            None => Ok(()),
        }
    }
}
