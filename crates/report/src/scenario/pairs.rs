//! Comparisons within a scenario.

use serde::{Deserialize, Serialize};

use super::{Cache, Point, Scenario, Series};

/// A comparison of sides that differ in something, over the same loads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// The heading.
    pub name: String,
    /// The differences of the sides. The others are compared with the first side.
    pub compares: Vec<Compared>,
    /// Several series, or one that has several values of the compared property.
    pub series: Vec<String>,
    /// Statements in the page's text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// A change that a page gives in its text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Share of reads, in percent.
    pub reads: u8,
    /// Difference of the second side from the first, in percent.
    pub percent: f64,
}

/// A property in which sides differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compared {
    /// The intended state of the server's memory.
    Cache,
    /// Numbers of clients.
    Clients,
    /// Connections of each client.
    Connections,
    /// Maximum READ and WRITE.
    Transfers,
    AttributeCache,
    /// Whether repetitions use the same places.
    Places,
    /// Numbers of directories.
    Directories,
    Protocol,
}

impl Compared {
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
    pub(crate) fn side(&self, series: &Series, point: &Point) -> Vec<u64> {
        self.compares.iter().map(|compared| compared.key(series, point)).collect()
    }

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
