//! The levels, figures and prices to choose from.

use super::{Measured, Prices};
use crate::source::OWN;
use crate::{Level, Profile, Provider, Refusal};

/// The levels, profiles, measurements and prices to choose from. Published figures are always included.
#[derive(Clone, Debug)]
pub struct Catalog {
    pub levels: Vec<Level>,
    /// True for large volumes only, false for regular ones only, `None` for both.
    pub large: Option<bool>,
    pub profiles: Vec<Profile>,
    /// The user's measurements. They replace the published figures of their level.
    pub measured: Vec<Measured>,
    pub prices: Option<Prices>,
}

const LEGACY: [Level; 2] = [Level::FilestoreHighScaleSsd, Level::FilestoreHighScaleSsd2021];

impl Default for Catalog {
    fn default() -> Self {
        let levels = Level::all().iter().copied().filter(|level| !LEGACY.contains(level)).collect();
        Self { levels, large: None, profiles: Vec::new(), measured: Vec::new(), prices: None }
    }
}

impl Catalog {
    pub fn of(levels: impl Into<Vec<Level>>) -> Self {
        Self { levels: levels.into(), ..Self::default() }
    }

    pub fn of_providers(providers: &[Provider]) -> Self {
        let mut catalog = Self::default();
        catalog.levels.retain(|level| providers.contains(&level.info().provider));
        catalog
    }

    /// Checks that each profile changes something and no two change the same.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        for (place, profile) in self.profiles.iter().enumerate() {
            let info = profile.info();
            let at = |level: &Level| info.levels.iter().any(|(one, _)| one == level);
            if !self.levels.iter().any(at) {
                let levels: Vec<&str> = info.levels.iter().map(|(level, _)| level.name()).collect();
                let what = format!("the profile {profile} for none of its levels");
                return Err(Refusal::new(what, format!("with one of {}", levels.join(", ")), info.source));
            }
            let same = |one: &&Profile| {
                let other = one.info();
                other.target == info.target && other.levels.iter().any(|(level, _)| at(level))
            };
            if let Some(other) = self.profiles[..place].iter().find(same) {
                let what = format!("the profiles {other} and {profile} for the same {}", info.target);
                return Err(Refusal::new(what, "one of them", OWN));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ineffective_and_duplicate_profiles_are_refused() {
        let with =
            |level, profiles: &[Profile]| Catalog { profiles: profiles.to_vec(), ..Catalog::of([level]) };
        let refused = |catalog: Catalog| catalog.check().unwrap_err().to_string();
        let vain = refused(with(Level::AnfUltra, &[Profile::FilestoreGke]));
        assert!(
            vain.contains("filestore-gke for none of its levels; allowed: with one of filestore/basic-hdd"),
            "{vain}"
        );
        let twice = refused(with(Level::AnfUltra, &[Profile::AnfLarge10240, Profile::AnfLargeDedicated]));
        assert!(
            twice.contains("anf-large-10240 and anf-large-dedicated for the same large volume"),
            "{twice}"
        );
        assert_eq!(
            with(Level::AnfUltra, &[Profile::AnfLarge10240, Profile::AnfRegular100Gib]).check(),
            Ok(())
        );
    }
}
