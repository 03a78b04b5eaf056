//! What may be chosen from.

use super::{Measured, Prices};
use crate::{Level, Profile, Provider};

/// Levels, figures where sources disagree, the user's own measurements and prices. What is published is always in it.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// The levels to look at.
    pub levels: Vec<Level>,
    /// Large volumes only, regular ones only, or both.
    pub large: Option<bool>,
    /// Variants of the levels' figures; each counts where it belongs.
    pub profiles: Vec<Profile>,
    /// What the user measured. For volumes of that level it takes the place of what is published.
    pub measured: Vec<Measured>,
    /// What things cost, where the user says so.
    pub prices: Option<Prices>,
}

/// Levels that cannot be bought any more.
const LEGACY: [Level; 2] = [Level::FilestoreHighScaleSsd, Level::FilestoreHighScaleSsd2021];

impl Default for Catalog {
    /// Everything that can be bought today.
    fn default() -> Self {
        let levels = Level::all().iter().copied().filter(|level| !LEGACY.contains(level)).collect();
        Self { levels, large: None, profiles: Vec::new(), measured: Vec::new(), prices: None }
    }
}

impl Catalog {
    /// Only these levels, legacy ones too.
    pub fn of(levels: impl Into<Vec<Level>>) -> Self {
        Self { levels: levels.into(), ..Self::default() }
    }

    /// What of [`Default`] is of these providers.
    pub fn of_providers(providers: &[Provider]) -> Self {
        let mut catalog = Self::default();
        catalog.levels.retain(|level| providers.contains(&level.info().provider));
        catalog
    }
}
